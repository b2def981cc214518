# SPDX-License-Identifier: Apache-2.0
"""Secrets that are handed over as files, as containers do it; does not know their purpose."""

import stat
from pathlib import Path
from urllib.parse import quote, urlsplit

from ringtune.errors import ConfigError

SECRET_BYTES_MAX = 4096
"""Longest content of a secret's file: a token or a password is one line."""


def secret_in(path: Path, setting: str) -> str:
    """Return the one line of a secret's file, without its line end.

    Args:
        path: A regular file; a pipe could keep the start waiting.
        setting: The variable that names the file, for messages.

    Raises:
        ConfigError: If the file cannot be read, or is not one line of text. The content is in no message.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(f"{setting}: {path} is no regular file; name one that has the secret alone")
        with path.open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"{setting}: {path} cannot be read: {error.strerror}; let the service's user read it"
        ) from error
    try:
        secret = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        secret = ""
    if not secret.isprintable() or not secret or len(content) > SECRET_BYTES_MAX:
        raise ConfigError(f"{setting}: {path} is not one line of text, at most {SECRET_BYTES_MAX} bytes long")
    return secret


def with_password(url: str, password: str, setting: str) -> str:
    """Return a database's URL with a password in it.

    Raises:
        ConfigError: If the URL names no user, or has a password already.
    """
    parts = urlsplit(url)
    if not parts.username or parts.password is not None:
        raise ConfigError(f"{setting} needs a database URL with a user and without a password, such as user@host")
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()
