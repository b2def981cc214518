# SPDX-License-Identifier: Apache-2.0
"""The texts of this repository open with their subject. `test_gates.py` shows the gate."""

from tests.house import prose
from tests.house.source_tree import REPOSITORY, SourceTree, listing

LISTED = 20
"""Violations that a failure shows at most; the command shows all."""


def test_texts_open_with_their_subject() -> None:
    """Docstrings, constants, arguments, options, C++ declarations and documents have no fragment in front."""
    found = prose.fragments(SourceTree(REPOSITORY))

    assert not found, f"see `python -m tests.house.prose FOLDER`\n{listing(found[:LISTED])}"
