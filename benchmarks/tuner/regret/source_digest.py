# SPDX-License-Identifier: Apache-2.0
"""Digest of the sources behind a kept result."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def sources_digest(folders: Iterable[Path], left_out: frozenset[str] = frozenset()) -> str:
    """Return a digest of the Python sources of some folders, independent of their place.

    Args:
        folders: Packages, of different names.
        left_out: Names of files, and of folders in them, on which no result depends.
    """
    named = {f"{folder.name}/{path.relative_to(folder)}": path for folder in folders for path in folder.rglob("*.py")}
    digest = hashlib.sha256()
    for name in sorted(name for name in named if not set(Path(name).parts) & left_out):
        digest.update(f"{name}\n".encode() + named[name].read_bytes())
    return digest.hexdigest()[:16]
