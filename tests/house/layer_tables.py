# SPDX-License-Identifier: Apache-2.0
"""Read the tables of docs/architecture.md, found by the heading of their first column: the document is the rule."""

from dataclasses import dataclass
from pathlib import Path

from tests.house.source_tree import SourceTree

ARCHITECTURE = Path("docs/architecture.md")
EVERYTHING = "everything"


@dataclass(frozen=True)
class Row:
    """One line of a layer table."""

    name: str
    may_use: frozenset[str]

    def allows(self, other: str) -> bool:
        """Return whether this layer may use another one, given by its row's name."""
        return other == self.name or other in self.may_use or EVERYTHING in self.may_use


def layer_table(tree: SourceTree, first_heading: str) -> dict[str, Row]:
    """Return the rows of the table whose first column is headed `first_heading`, by name.

    Raises:
        ValueError: If the document has no such table.
    """
    rows: dict[str, Row] = {}
    is_inside = False
    for line in tree.text(ARCHITECTURE).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            is_inside = False
        elif cells[0] == first_heading:
            is_inside = True
        elif is_inside and not cells[0].startswith("--"):
            rows |= {name: Row(name, _names(cells[1])) for name in _names(cells[0])}
    if not rows:
        raise ValueError(f"{ARCHITECTURE} has no table whose first column is headed '{first_heading}'")
    return rows


def _names(cell: str) -> frozenset[str]:
    return frozenset(name.strip().strip("`") for name in cell.split(",") if name.strip() not in {"", "nothing"})
