# SPDX-License-Identifier: Apache-2.0
"""Forms are read strictly."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from ringtune.dashboards.web.forms import FORM_TYPE, MAX_FIELDS, field_of, form_of
from ringtune.service.errors import InvalidRequest
from tests.unit.service.api.asgi import scope_of


def read(body: bytes, kind: str = FORM_TYPE) -> dict[str, list[str]]:
    """Return the fields of a body."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [("content-type", kind)] if kind else []
    return dict(asyncio.run(form_of(Request(scope_of("/tokens", method="POST", headers=headers), receive))))


def test_a_form_has_its_fields() -> None:
    """Empty ones too, several values of one, and any letters."""
    fields = read(b"name=a+b%21&scope=read&scope=report&empty=&\xc3\xa9=%C3%A9", f"{FORM_TYPE}; charset=utf-8")

    assert {"name": ["a b!"], "scope": ["read", "report"], "empty": [""], "é": ["é"]} == fields
    assert ("a b!", "readreport", "", "") == tuple(field_of(fields, name) for name in ("name", "scope", "empty", "no"))
    assert {} == read(b"", "")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"a=1", "text/plain"),
        (b"a=1", ""),
        (b"a=1", "application/json"),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n', "multipart/form-data; boundary=x"),
        (b"a=%ff", FORM_TYPE),
        (b"a=\xff", FORM_TYPE),
        (b"&".join([b"a=1"] * (MAX_FIELDS + 1)), FORM_TYPE),
    ],
)
def test_what_is_no_form_of_a_page_is_refused(body: bytes, kind: str) -> None:
    """Bytes that are no UTF-8, too many fields, and every other type: multipart bodies could bring files."""
    with pytest.raises(InvalidRequest, match="send the form of the page"):
        read(body, kind)
