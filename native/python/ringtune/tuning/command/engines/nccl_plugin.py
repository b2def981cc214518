# SPDX-License-Identifier: Apache-2.0
"""Finds the tuner plugin for NCCL, which is part of the installed package."""

import importlib.util
from pathlib import Path

from ringtune.errors import ConfigError

PLUGIN_VARIABLE = "NCCL_TUNER_PLUGIN"
"""NCCL's variable for the path of a tuner plugin."""
LIBRARY = "libringtune_nccl_tuner.so"


def plugin_path() -> Path:
    """Return the absolute path of the plugin.

    Raises:
        ConfigError: If this installation lacks it.
    """
    package = importlib.util.find_spec("ringtune")
    folders = [Path(location) / "nccl" for location in (package and package.submodule_search_locations) or ()]
    found = next((folder / LIBRARY for folder in folders if (folder / LIBRARY).is_file()), None)
    if found is None:
        places = ", ".join(map(str, folders))
        raise ConfigError(f"{LIBRARY} is missing from this installation of ringtune ({places}); install it again")
    return found.absolute()
