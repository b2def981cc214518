# SPDX-License-Identifier: Apache-2.0
"""Forms of other sites and ports are refused before anything of them is read."""

import pytest
from starlette.datastructures import Headers

from ringtune.dashboards.web.own_forms import OwnForms, is_own_form
from tests.unit.dashboards.web.answering import Inner, asked


def test_a_form_of_another_site_reaches_nothing() -> None:
    """A foreign form is refused whatever cookie comes with it; our forms and reads go through."""
    inner = Inner()
    app, here, there = OwnForms(inner), ("origin", "http://h"), ("origin", "http://other")

    refused = asked(app, "/tokens", ("host", "h"), there, ("cookie", "ringtune_session=x"), method="POST")
    assert (403, []) == (refused.status, inner.scopes)

    asked(app, "/tokens", ("host", "h"), here, method="POST")
    asked(app, "/tokens", ("host", "h"), there)
    assert ["POST", "GET"] == [scope["method"] for scope in inner.scopes]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "post"])
def test_every_method_that_is_not_safe_needs_its_origin(method: str) -> None:
    """Methods that no page uses need their origin, too."""
    inner = Inner()

    assert (403, []) == (asked(OwnForms(inner), "/tokens", ("host", "h"), method=method).status, inner.scopes)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "h:1", "origin": "http://h:1"}, True),
        ({"host": "h", "origin": "https://h"}, True),
        ({"host": "h", "sec-fetch-site": "same-origin"}, True),
        ({"host": "h", "origin": "http://h.evil"}, False),
        ({"host": "h:1", "origin": "http://h"}, False),
        ({"host": "h:1", "origin": "http://h:2"}, False),
        ({"host": "h", "origin": "null", "sec-fetch-site": "same-origin"}, False),
        ({"host": "h", "origin": "http://["}, False),
        ({"host": "h", "sec-fetch-site": "same-site"}, False),
        ({"host": "h", "sec-fetch-site": "cross-site"}, False),
        ({"host": "", "origin": "http://"}, False),
        ({"origin": "file://"}, False),
        ({"host": "h"}, False),
    ],
)
def test_a_form_is_ours_if_its_origin_is_the_address_that_was_asked(headers: dict[str, str], expected: bool) -> None:
    """Port and all; without an origin the browser's own word for it counts."""
    assert expected is is_own_form(Headers(headers))
