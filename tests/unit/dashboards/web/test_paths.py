# SPDX-License-Identifier: Apache-2.0
"""Pages go one way and the API the other."""

import pytest

from ringtune.dashboards.web.paths import PagePaths
from ringtune.dashboards.web.rendering import link
from ringtune.dashboards.web.views.sign_in import own_path
from tests.unit.dashboards.web.answering import Inner, asked


@pytest.mark.parametrize(
    ("path", "is_page"),
    [
        ("/studies", True),
        ("/nowhere", True),
        ("/events", True),
        ("/v10", True),
        ("/", True),
        ("/v1", False),
        ("/v1/nothing", False),
        ("/v1/events", False),
        ("/healthz", False),
        ("/metrics", False),
        ("/openapi.json", False),
    ],
)
def test_paths_are_the_api_s_whatever_they_lead_to(path: str, is_page: bool) -> None:
    """The API's paths are a closed list, and every other path is a page's."""
    others, pages = Inner(), Inner()

    asked(PagePaths(others, pages), path)

    assert (not is_page, is_page) == (bool(others.scopes), bool(pages.scopes))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("/studies?q=a", "/studies?q=a"),
        ("/recommendations?model=%2F%2Fx", "/recommendations?model=%2F%2Fx"),
        ("//evil", "/studies"),
        ("/\t/evil", "/studies"),
        ("/\\evil", "/studies"),
        ("\\\\evil", "/studies"),
        ("http://evil", "/studies"),
        ("javascript:alert(1)", "/studies"),
        ("", "/studies"),
        ("studies", "/studies"),
        ("/sign-in?next=/x", "/studies"),
        ("//[", "/studies"),
        ("/\\[", "/studies"),
        ("//\u2100", "/studies"),
    ],
)
def test_after_a_sign_in_only_a_path_of_ours_comes(wanted: str, expected: str) -> None:
    """Anything that a browser could take for another host leads to the start page."""
    assert expected == own_path(wanted)


def test_links_have_the_parameters_that_are_set() -> None:
    """Escaped, lists several times."""
    assert "/x?a=1%262&b=c&b=d" == link("/x", {"a": "1&2", "empty": "", "none": None}, b=["c", "d"])
    assert "/x" == link("/x", {"a": "1"}, a="")
