# SPDX-License-Identifier: Apache-2.0
"""The file `.env` of the working directory: taken only from this user or root, for it decides on permissions."""

import os
import stat
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values

from ringtune.errors import ConfigError

MAX_BYTES = 1 << 20


def env_file_values(path: Path) -> dict[str, str]:
    """Return the variables of a file with their values, without empty ones; none if there is no file.

    Raises:
        ConfigError: If somebody else owns the file or could have written it, or if it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _refusal(path, f"cannot be read ({error.strerror})", "make it readable, or remove it") from error
    try:
        _check(path, os.fstat(descriptor))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise _refusal(path, f"has more than {MAX_BYTES} bytes", "remove it")
    try:
        values = dotenv_values(stream=StringIO(content.decode()))
    except UnicodeDecodeError as error:
        raise _refusal(path, "is not UTF-8", "write it anew, or remove it") from error
    return {name: value for name, value in values.items() if value}


def _check(path: Path, status: os.stat_result) -> None:
    """Refuse a file that others have made or could have changed; a link must be this user's or root's, too."""
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(path, "is no regular file", "remove it")
    trusted = {os.geteuid(), 0}
    strangers = {status.st_uid, path.lstat().st_uid} - trusted
    if strangers:
        raise _refusal(
            path,
            f"belongs to user {min(strangers)}, not to you ({os.geteuid()}) or root",
            "remove it, or start the command in a folder of your own",
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise _refusal(path, f"can be written by others (mode {mode})", f"look through it, then: chmod go-w {path}")


def _refusal(path: Path, reason: str, advice: str) -> ConfigError:
    return ConfigError(f"the service's settings are not read from {path}, which {reason}; {advice}")
