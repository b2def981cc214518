# SPDX-License-Identifier: Apache-2.0
"""The walks of `docs/ways` are the code's; README leads to the place of a decision in three clicks."""

import os
import re
from pathlib import Path

import pytest

from tests.house import walks
from tests.house.layer_tables import ARCHITECTURE
from tests.house.source_tree import REPOSITORY, SourceTree, listing
from tests.house.walks import FOLDER, walk_violations

WAYS = ("a query", "a rank", "a sample", "a tensor")
CLICKS = 3
ADOPTION = Path("tuner/policy/adoption.py")
DECISION = re.compile(r"\| `([\w.:]+)` in \[[^\]]+\]\(([^)]+)\) \|")
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")
HEADER = "# The way of a thing\n\n| # | from | file | function | what happens |\n|--:|--:|---|---|---|\n"
FILES = {
    "a.py": """
from b import B, carry

class A:
    def start(self):
        B().go(carry)
""",
    "b.py": """
class B:
    def go(self, by):
        # a comment that names lost()
        engine.push("ended")

def carry(): ...
def lost(): ...
def ended(): ...
""",
    "c.cpp": """
void Queue::push(int x) {
  table.add(x);  // or drop(x)
}
void drop(int x) {}
void Queue::add(int x) {}
""",
}
GOOD = ("- | `a.py` | `A.start`", "1 | `b.py` | `B.go`", "2 | `c.cpp` | `Queue::push`", "3 | `c.cpp` | `Queue::add`")


def walk_of(folder: Path, rows: tuple[str, ...]) -> SourceTree:
    """Write a walk with such rows and the files that it passes; return the tree."""
    lines = "".join(f"| {number} | {row} | it goes on |\n" for number, row in enumerate(rows, start=1))
    for name, text in {**FILES, str(FOLDER / "thing.md"): HEADER + lines}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return SourceTree(folder)


def test_the_three_ways_are_those_of_the_code() -> None:
    """Each file and function of a walk exists, and each hop is a call, an import or a registration."""
    tree = SourceTree(REPOSITORY)
    found = walk_violations(tree)

    assert [] == found, "\n" + listing(found)
    assert WAYS == tuple(walks.walks(tree))
    assert all(len(walk) > 9 for walk in walks.walks(tree).values())


def test_a_walk_that_holds_passes(tmp_path: Path) -> None:
    """Calls of methods, across languages and inside a file, are hops."""
    assert [] == walk_violations(walk_of(tmp_path, GOOD))


@pytest.mark.parametrize(
    ("place", "row", "fault"),
    [
        (1, "1 | `gone.py` | `B.go`", "gone.py does not exist"),
        (1, "1 | `b.py` | `B.went`", "does not define B.went"),
        (2, "2 | `c.cpp` | `Queue::pull`", "does not define Queue::pull"),
        (1, "1 | `b.py` | `lost`", "does not use lost"),
        (2, "2 | `b.py` | `ended`", "does not use ended"),
        (3, "3 | `c.cpp` | `drop`", "does not use drop"),
        (1, "4 | `b.py` | `B.go`", "out of order"),
    ],
)
def test_a_row_that_does_not_hold_is_named(tmp_path: Path, place: int, row: str, fault: str) -> None:
    """A renamed file or function, and a hop that only a comment or a text makes, fail."""
    rows = (*GOOD[:place], row, *GOOD[place + 1 :])

    found = walk_violations(walk_of(tmp_path, rows))

    assert any(fault in violation.message for violation in found), listing(found)


def clicks_to(target: Path, start: Path) -> list[Path]:
    """Return the shortest way from a document to a file over links, both included; an empty one where there is none."""
    ways = [[start]]
    seen = {start}
    while ways:
        way = ways.pop(0)
        if way[-1] == target:
            return way
        if way[-1].suffix != ".md":
            continue
        for link in LINK.findall((REPOSITORY / way[-1]).read_text(encoding="utf-8")):
            path = Path(os.path.normpath(way[-1].parent / link))
            if path not in seen and (REPOSITORY / path).is_file():
                seen.add(path)
                ways.append([*way, path])
    return []


def test_a_reader_reaches_the_place_where_adoption_is_decided() -> None:
    """The links of README and documents lead to the function that decides, in three clicks."""
    way = clicks_to(ADOPTION, Path("README.md"))

    assert 1 < len(way) <= CLICKS + 1, way
    assert f"`decide` in [{ADOPTION.name}]" in (REPOSITORY / way[-2]).read_text(encoding="utf-8")
    assert re.search(r"^def decide\(", (REPOSITORY / ADOPTION).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_decision_is_where_the_architecture_says() -> None:
    """The table of decisions names functions that its files define."""
    tree = SourceTree(REPOSITORY)
    rows = DECISION.findall(tree.text(ARCHITECTURE))

    assert len(rows) >= 5
    for function, link in rows:
        path = Path(os.path.normpath(ARCHITECTURE.parent / link))
        assert walks.defines(tree, path, function), f"{path} does not define {function}"
