# SPDX-License-Identifier: Apache-2.0
"""Replies read as models of the REST interface: strict in types, lenient towards fields that a newer service adds."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ringtune.system.printable import printable, shown

from .errors import ServiceReplyError

Model = TypeVar("Model", bound=BaseModel)
SHOWN_CHARACTERS = 40
"""Characters of a foreign value in a message."""


def read_reply(kind: type[Model], data: object) -> Model:
    """Return the model that a JSON value describes.

    Args:
        kind: The model.
        data: The value that `json.loads` returned.

    Raises:
        ServiceReplyError: If a field is missing or has another type; the message names it.
    """
    try:
        return kind.model_validate(data, extra="ignore")
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
        value = "" if fault["type"] == "missing" else f"={shown(fault['input'], SHOWN_CHARACTERS)!r}"
        text = printable(f"{kind.__name__}{place}{value}: {fault['msg']}")
        raise ServiceReplyError(f"the service's reply cannot be used: {text}; is it of another version?") from error
