# SPDX-License-Identifier: Apache-2.0
"""Settings of the driver that the ranks get: an executor has an environment of its own."""

from collections.abc import Mapping
from pathlib import Path

from ringtune.launch.environment import forwarded_settings

_FILE_NAMES: Mapping[str, str] = {
    "AUTOTUNE_LOG": "",
    "AUTOTUNE_CACHE": "0",
    "RINGTUNE_TIMELINE": "",
    "HOROVOD_AUTOTUNE_LOG": "",
    "HOROVOD_TIMELINE": "DYNAMIC",
}
"""Variables that name files, each with its word for none."""


def rank_variables(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the ranks; a file's relative name begins in the driver's folder.

    Args:
        environ: The driver's environment: settings of ringtune's and Horovod's go to the ranks; a place in a job and
            a service's settings do not.
        given: Variables that the user gives to the ranks; they win.
    """
    return {name: _absolute(name, str(value)) for name, value in {**forwarded_settings(environ), **given}.items()}


def _absolute(name: str, value: str) -> str:
    is_file = name in _FILE_NAMES and value and value.upper() != _FILE_NAMES[name]
    return str(Path.cwd() / value) if is_file else value
