# SPDX-License-Identifier: Apache-2.0
"""Shares of the tests, which parallel processes of pytest take in turn.

A share is a file, whose fixtures start a Slurm or a Spark session once, or a folder with a `conftest.py`, whose
fixtures serve all of its files, such as Ray's. Shares with many tests come first.
"""

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from tests.house.source_tree import REPOSITORY

OWN_FOLDER = Path(__file__).parent


class ShareScheduling(LoadScopeScheduling):  # type: ignore[misc]  # (xdist ships no types)
    """Scheduler that gives a share to one process as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(REPOSITORY / nodeid.partition("::")[0])


def share_of(path: Path) -> str:
    """Return the name of a test file's share."""
    has_fixtures = path.parent != OWN_FOLDER and (path.parent / "conftest.py").exists()
    return (path.parent if has_fixtures else path).relative_to(OWN_FOLDER).as_posix()
