# SPDX-License-Identifier: Apache-2.0
"""The cookie of somebody who signed in: the token, and when; nobody else can read it, and it ends.

The token's own secret signs the time, so that a browser that keeps the cookie for longer does not stay signed in, in
whatever process of the service. Whoever takes the token out of a stolen cookie has the token: revoke it.
"""

import hashlib
import hmac
from urllib.parse import quote, unquote

COOKIE = "ringtune_sign_in"
MAX_AGE_S = 12 * 3600
AHEAD_S = 60
"""How far another machine's clock may be ahead."""


def sealed(secret: str, now_unix_s: float) -> str:
    """Return the cookie's value for a token that was found to be valid.

    The token is quoted: one that is a setting may have marks that would end the cookie.
    """
    begun = str(int(now_unix_s))
    return f"{begun}.{_signature(secret, begun)}.{quote(secret, safe='')}"


def opened(value: str, now_unix_s: float) -> str | None:
    """Return the token in a cookie's value, None if the value is not ours or too old."""
    begun, _, rest = value.partition(".")
    signature, _, quoted = rest.partition(".")
    secret = unquote(quoted)
    is_ours = begun.isascii() and begun.isdigit() and len(begun) < 16 and secret.isascii() and signature.isascii()
    if not is_ours or not hmac.compare_digest(signature, _signature(secret, begun)):
        return None
    return secret if -AHEAD_S <= now_unix_s - int(begun) < MAX_AGE_S else None


def cookie_value(header: str) -> str | None:
    """Return the value of our cookie in a Cookie header."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value.strip('"')
    return None


def set_cookie(value: str, *, is_secure: bool) -> str:
    """Return the Set-Cookie header that keeps a value; an empty one removes the cookie."""
    attributes = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={MAX_AGE_S if value else 0}"
    return f"{COOKIE}={value}; {attributes}{'; Secure' if is_secure else ''}"


def _signature(secret: str, begun: str) -> str:
    return hmac.new(secret.encode(), begun.encode(), hashlib.sha256).hexdigest()
