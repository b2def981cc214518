# SPDX-License-Identifier: Apache-2.0
"""The service's address and the caller's token: both are checked before anything is sent."""

import re
from urllib.parse import urlsplit

from ringtune.errors import ConfigError

MAX_URL_LENGTH = 2000
ALLOWED_URL = "http://HOST[:PORT][/PATH] or https://..., without user, query or fragment"
PAGE_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]{1,200}){1,8}")
"""Paths that are shown to people as the service names them; a terminal makes a link of one."""


def service_url(text: str) -> str:
    """Return the service's URL without a slash at its end.

    Raises:
        ConfigError: If it is no URL of a service.
    """
    url = text.strip().rstrip("/")
    if len(url) > MAX_URL_LENGTH:
        raise ConfigError(f"the service's URL is longer than {MAX_URL_LENGTH} characters; give {ALLOWED_URL}")
    is_text = url.isascii() and url.isprintable() and " " not in url
    if not is_text or not _is_of_service(url):
        raise ConfigError(
            f"{_without_secret(text)} is no URL of a service; set AUTOTUNE_SERVICE_URL, or give --service-url, "
            f"as {ALLOWED_URL}"
        )
    return url


def page_url(url: str, path: str | None) -> str | None:
    """Return the URL of a page of the service; None where it named none, or one that cannot be shown.

    Args:
        url: The service's, from `service_url`: it has no user and no password.
        path: The page's path, as the service answered it.
    """
    return f"{url}{path}" if path is not None and PAGE_PATH.fullmatch(path) else None


def bearer_token(text: str | None) -> str | None:
    """Return the token, None for none.

    Raises:
        ConfigError: If it cannot stand in a header; the message does not show it.
    """
    if text is None:
        return None
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise ConfigError("the service's token has characters that no token has; copy it again as it was shown")
    return text


def _is_of_service(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, brackets that do not close
        return False
    return has_place and not ("@" in parts.netloc or parts.query or parts.fragment)


def _without_secret(text: str) -> str:
    """Return the URL as a message may show it: a password may stand before the `@`."""
    return repr(text) if "@" not in text else "a URL with a user or password"
