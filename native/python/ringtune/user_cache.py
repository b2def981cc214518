# SPDX-License-Identifier: Apache-2.0
"""The user's cache folder: what may be deleted at any time, and is then measured or learned anew."""

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache_folder(environ: Mapping[str, str]) -> Path:
    """Return ringtune's folder in `XDG_CACHE_HOME` where it is set, else in `~/.cache`; it need not be there yet."""
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111  (`Path.home` raises where there is none)
    return cache / "ringtune"
