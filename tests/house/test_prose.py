# SPDX-License-Identifier: Apache-2.0
"""Texts of this repository that open with a fragment: their number may only fall. `test_gates.py` shows the gate."""

from functools import cache
from pathlib import Path

import pytest

from tests.house import prose
from tests.house.source_tree import REPOSITORY, SourceTree, Violation, listing

LISTED = 20
"""Violations that a failure shows at most; the command shows all."""


@cache
def fragments_by_area() -> dict[str, list[Violation]]:
    """Return the fragments of this repository, read once."""
    return prose.by_area(prose.fragments(SourceTree(REPOSITORY)), prose.ceilings())


@pytest.mark.parametrize("area", ["", *prose.ceilings()])
def test_an_area_has_as_many_fragments_as_it_is_allowed(area: str) -> None:
    """More is a new fragment; fewer is a ceiling to lower, so that they do not come back."""
    found = fragments_by_area()[area]

    advice = "see `python -m tests.house.prose FOLDER`; after improvements run it with --lower"
    assert prose.ceilings().get(area, 0) == len(found), f"{advice}\n{listing(found[:LISTED])}"


def test_a_file_belongs_to_the_longest_folder_that_holds_it() -> None:
    """A file of a folder without a ceiling of its own counts for the folder above, or for none."""
    violations = [Violation(Path(name), 1, "opens badly") for name in ("a/b/x.py", "a/x.py", "x.md")]

    areas = prose.by_area(violations, {"a": 1, "a/b": 1})

    assert {"a/b": [violations[0]], "a": [violations[1]], "": [violations[2]]} == areas
