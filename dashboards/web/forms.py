# SPDX-License-Identifier: Apache-2.0
"""The forms that pages send: URL-encoded, strict UTF-8, few fields.

Python's `parse_qsl` does that. Starlette's parser (python-multipart) would take multipart bodies and files as well,
any bytes as text, and one dependency more.
"""

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import parse_qsl

from starlette.requests import Request

from ringtune.service.errors import InvalidRequest

FORM_TYPE = "application/x-www-form-urlencoded"
MAX_FIELDS = 20

Fields: TypeAlias = Mapping[str, list[str]]


async def form_of(request: Request) -> Fields:
    """Return the fields of a form that a page of ours sent; an empty body without a type has none.

    Raises:
        InvalidRequest: If it is no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if not kind and not body:
        return {}
    if kind != FORM_TYPE:
        raise InvalidRequest(f"the body is {kind[:100]!r}, not a form; send the form of the page")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, encoding="utf-8", errors="strict"
        )
    except ValueError as error:
        raise InvalidRequest(f"the form cannot be read ({str(error)[:100]}); send the form of the page") from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def field_of(fields: Fields, name: str) -> str:
    """Return a field that comes once, without white space around it; "" where it is missing."""
    return "".join(fields.get(name, [])).strip()
