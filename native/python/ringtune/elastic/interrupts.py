# SPDX-License-Identifier: Apache-2.0
"""Reasons to leave a world and to meet again: an agreed update, or the loss of a rank."""

import re
from collections.abc import Iterator

from ringtune.errors import CollectiveTimeout, EngineError, MismatchError

LOSS_IN_TEXT = re.compile(r"\b(PeerLostError|CollectiveTimeout|DeviceError|EngineError): (.*)")
"""A loss in the text of a framework's error, which has swallowed the engine's."""
DESCRIPTION_CHARACTERS = 200  # limit of an error's text in a line of the launcher


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818  (Horovod's name)
    """Workers wait to take part, or are to leave: all ranks meet again.

    `State.commit` and `State.check_host_updates` raise it, on every rank at the same call. `run` catches it; a training
    function lets it pass.
    """


def is_loss(error: BaseException) -> bool:
    """Return whether an error, or one that it was raised from, means that the world is lost.

    A `MismatchError` is a fault of the program and no loss: the engine stays usable, and the same steps would end the
    same way.
    """
    return any(isinstance(cause, EngineError) and not isinstance(cause, MismatchError) for cause in _causes(error))


def is_timeout(error: BaseException) -> bool:
    """Return whether a loss is a rank that lives and has kept the others waiting for the whole time limit."""
    found = LOSS_IN_TEXT.search(str(error))
    is_named = found is not None and found.group(1) == CollectiveTimeout.__name__
    return is_named or any(isinstance(cause, CollectiveTimeout) for cause in _causes(error))


def reason_of(error: BaseException) -> str:
    """Return the first line of a loss, for people; also out of the text of an error of a framework."""
    found = LOSS_IN_TEXT.search(str(error))
    return found.group(2) if found else (str(error).splitlines() or [type(error).__name__])[0]


def describe(error: BaseException) -> str:
    """Return the type of an error and the first line of its text, for a line of the launcher."""
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r})"[:DESCRIPTION_CHARACTERS]
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:DESCRIPTION_CHARACTERS] if lines else type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error and those that a traceback of it shows."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
