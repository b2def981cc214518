# SPDX-License-Identifier: Apache-2.0
"""Reads the protection of this process's connections: `RINGTUNE_TLS` and the three files, which are this host's own.

No rank adopts rank 0's: a rank that is to encrypt must not be talked out of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.tls import CLEAR, Tls, tls_by_certificates, tls_by_job_key

SWITCH_NAME = "RINGTUNE_TLS"
FILE_NAMES = ("RINGTUNE_TLS_CERT", "RINGTUNE_TLS_KEY", "RINGTUNE_TLS_CA")
_SWITCHES = {"1": True, "true": True, "0": False, "false": False, "auto": None}


def read_tls(environ: Mapping[str, str]) -> Tls:
    """Return the protection that an environment asks for.

    `RINGTUNE_TLS=auto`, the default, is on where the three files are given. Where it is on, the files hold the keys if
    they are given, and else the job key does.

    Raises:
        ConfigError: If a value is not allowed, files are missing or hold something else, or there is no OpenSSL.
    """
    given = [name for name in FILE_NAMES if environ.get(name)]
    is_on = _switch(environ)
    if not (bool(given) if is_on is None else is_on):
        return CLEAR
    if not given:
        return tls_by_job_key()
    for name in FILE_NAMES:
        _check_readable(name, environ.get(name, ""), given)
    return tls_by_certificates(*(environ[name] for name in FILE_NAMES))


def _switch(environ: Mapping[str, str]) -> bool | None:
    """Return the value of `RINGTUNE_TLS`; None for `auto`."""
    text = environ.get(SWITCH_NAME, "auto")
    if text.strip().lower() not in _SWITCHES:
        raise ConfigError(f"{SWITCH_NAME}={text!r} is not allowed; allowed: 1, 0 or auto")
    return _SWITCHES[text.strip().lower()]


def _check_readable(name: str, path: str, given: Sequence[str]) -> None:
    if not path:
        raise ConfigError(
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} set, but {name} is not; TLS by certificates "
            f"needs {', '.join(FILE_NAMES)}"
        )
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{name}={path!r} cannot be read: {error.strerror}; each host needs a file of its own there"
        ) from error
