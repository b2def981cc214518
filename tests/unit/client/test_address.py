# SPDX-License-Identifier: Apache-2.0
"""Tests of URL and token: malformed ones are refused, and no message shows a secret."""

import pytest

from ringtune.client import bearer_token, page_url, service_url
from ringtune.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470"),
        (" https://tuning.example/team/ ", "https://tuning.example/team"),
        ("http://[::1]:8470/", "http://[::1]:8470"),
        ("http://a\n", "http://a"),
    ],
)
def test_a_url_of_a_service(text: str, url: str) -> None:
    """Without a slash at its end."""
    assert url == service_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tuning:8470",
        "ftp://tuning",
        "http://",
        "http://a:99999",
        "http://a:0",
        "http://[::1",
        "http://a/?x=1",
        "http://a/#x",
        "http://a b",
        "http://ä",
        "http://a/" + "x" * 3000,
    ],
)
def test_what_is_no_url_of_a_service_is_refused(text: str) -> None:
    """The message names the allowed forms."""
    with pytest.raises(ConfigError, match="HOST"):
        service_url(text)


@pytest.mark.parametrize("text", ["http://user:s3cret@a", "http://s3cret@a", "http://s3cret@a:port"])
def test_a_secret_in_a_url_is_refused_and_not_shown(text: str) -> None:
    """Tokens have a variable of their own."""
    with pytest.raises(ConfigError) as refused:
        service_url(text)

    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/studies/" + "ab" * 16, "https://tuning.example/team/studies/" + "ab" * 16),
        ("/later/version/of/studies/ab", "https://tuning.example/team/later/version/of/studies/ab"),
        (None, None),
        ("", None),
        ("@elsewhere.example/studies", None),
        ("studies/ab", None),
        ("/studies/ab\x1b[2J", None),
        ("/studies/ab?token=s3cret", None),
        ("/studies/ab\n", None),
        ("/" + "a" * 3000, None),
    ],
)
def test_a_page_is_below_the_service_s_url_or_not_shown(path: str | None, url: str | None) -> None:
    """A service names the path; one that leads elsewhere, or holds more than a path, is never shown."""
    assert url == page_url("https://tuning.example/team", path)


@pytest.mark.parametrize("token", ["", "two words", "s3cret\r\nX: y", "s3crét", "s3cret\x7f"])
def test_a_token_that_cannot_stand_in_a_header_is_refused_and_not_shown(token: str) -> None:
    """A line break would add headers."""
    with pytest.raises(ConfigError) as refused:
        bearer_token(token)

    assert "s3c" not in str(refused.value)


def test_a_token_may_be_missing() -> None:
    """An open service needs no token."""
    assert bearer_token(None) is None
    assert "rt_2Zk-_." == bearer_token("rt_2Zk-_.")


def test_the_refusal_names_variable_and_option() -> None:
    """A job's user has set a variable, a command's user an option."""
    with pytest.raises(ConfigError, match="AUTOTUNE_SERVICE_URL, or give --service-url"):
        service_url("127.0.0.1:1")
