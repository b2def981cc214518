# SPDX-License-Identifier: Apache-2.0
"""The files that `make wheels` left in `dist`."""

import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringtune import __version__

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
GLIBC = (2, 28)
FOREIGN = {"x86_64", "aarch64"} - {platform.machine()}
ARCHITECTURES = (platform.machine(), *(pytest.param(name, marks=pytest.mark.long) for name in FOREIGN))
"""Architectures of the wheels. Those that are cross-compiled take minutes to build, and `make test-long` has them."""
PYTHON_TAG = "cp312-abi3" if sys.version_info >= (3, 12) else "cp{0}{1}-cp{0}{1}".format(*sys.version_info)


def wheel(architecture: str = platform.machine()) -> Path:
    """Return this Python's wheel for an architecture; its name has to say version, Python and an old glibc."""
    names = [
        f"ringtune-{__version__}-{PYTHON_TAG}-manylinux_2_{minor}_{architecture}.whl" for minor in range(GLIBC[1] + 1)
    ]
    return _built(next((name for name in names if (DIST / name).is_file()), names[-1]))


def sdist() -> Path:
    """Return the sdist."""
    return _built(f"ringtune-{__version__}.tar.gz")


def package_files(listed: Sequence[str]) -> set[str]:
    """Return the paths in the wheel of the files that git lists in the package's folders.

    Args:
        listed: Paths relative to the repository's root.
    """
    below = {"native/python/ringtune/": "ringtune/"}
    below |= {f"{name}/": f"ringtune/{name}/" for name in ("tuner", "service", "dashboards")}
    return {
        target + path.removeprefix(folder)
        for path in listed
        for folder, target in below.items()
        if path.startswith(folder) and not (REPOSITORY / path).is_symlink()
    }


def _built(name: str) -> Path:
    path = DIST / name
    assert path.is_file(), (
        f"{path} is missing; `make wheels` builds it. There: {sorted(p.name for p in DIST.glob('*'))}"
    )
    return path
