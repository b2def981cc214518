# SPDX-License-Identifier: Apache-2.0
"""The cookie of a sign-in: it holds for its age, and nothing else opens."""

import pytest

from ringtune.dashboards.web.sign_ins import AHEAD_S, COOKIE, MAX_AGE_S, cookie_value, opened, sealed, set_cookie

SECRET = "rt_0123456789abcdef_" + "x" * 43
NOW = 1.7e9


@pytest.mark.parametrize("later_s", [0, 1, MAX_AGE_S - 1, -AHEAD_S])
def test_what_was_sealed_opens_while_it_is_young(later_s: float) -> None:
    """Also where another machine's clock is a little behind."""
    assert SECRET == opened(sealed(SECRET, NOW), NOW + later_s)


@pytest.mark.parametrize("later_s", [MAX_AGE_S, MAX_AGE_S + 1, 1e9, -AHEAD_S - 1])
def test_what_is_old_or_of_the_future_does_not_open(later_s: float) -> None:
    """Whatever the browser kept."""
    assert opened(sealed(SECRET, NOW), NOW + later_s) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        SECRET,
        f"{int(NOW)}.{SECRET}",
        f"{int(NOW)}..{SECRET}",
        "x.y.z",
        "9" * 40 + ".a.b",
        "é.é.é",
        "1.é.b",
    ],
)
def test_what_is_not_ours_does_not_open(value: str) -> None:
    """And raises nothing."""
    assert opened(value, NOW) is None


def test_a_changed_time_does_not_open() -> None:
    """A browser cannot stay signed in by writing a later time."""
    _, signature, secret = sealed(SECRET, NOW).split(".")

    assert opened(f"{int(NOW) + 1}.{signature}.{secret}", NOW) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (f"{COOKIE}=a.b.c", "a.b.c"),
        (f"x=1; {COOKIE}=a.b.c; y=2", "a.b.c"),
        (f'{COOKIE}="a.b.c"', "a.b.c"),
        (f"not_{COOKIE}=a", None),
        ("", None),
        (";;=;", None),
    ],
)
def test_our_cookie_is_found_among_others(header: str, expected: str | None) -> None:
    """By its whole name."""
    assert expected == cookie_value(header)


def test_an_empty_value_removes_the_cookie() -> None:
    """With the attributes that it was set with."""
    assert f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure" == set_cookie("", is_secure=True)


@pytest.mark.parametrize("secret", ['made; by=somebody, with "marks"', '"quoted-by-somebody"', "100%41-is-no-letter-a"])
def test_a_token_that_somebody_chose_comes_back_out_of_its_cookie(secret: str) -> None:
    """Whatever marks a setting's token has: none ends the cookie, or becomes an attribute of it."""
    kept = set_cookie(sealed(secret, NOW), is_secure=False).partition("; ")[0]

    value = cookie_value(f"other=1; {kept}; another=2")

    assert value is not None
    assert secret == opened(value, NOW)
