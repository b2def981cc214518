# SPDX-License-Identifier: Apache-2.0
"""Density of the words what, who, nobody and nothing in docstrings and C++ comments, with a ceiling for each folder.

Each stands for a noun that a reader has to find: "what a job reported" is a job's reports. A folder is clean at 3 per
1,000 words; the others have the density that they had, which may only fall. Lower a ceiling with each pass.
`python -m tests.house.vague_words [FOLDER...]` lists the lines.
"""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.source_tree import CXX, PYTHON, REPOSITORY, SourceTree, Violation

VAGUE = frozenset({"what", "who", "nobody", "nothing"})
CLEAN = 3
"""Vague words per 1,000 that a folder may have unless `CEILINGS` has it."""
CEILINGS: Mapping[str, int] = {}
"""Vague words per 1,000 in the folders that are not clean yet, rounded up."""
ROOMS = ("native/python/ringtune", "native", "tests")
"""Folders whose folders are counted each for itself; all others are counted whole."""

WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
CXX_COMMENT = re.compile(r"(?<!:)//+(.*)$")


@dataclass
class Density:
    """Vague words among all words of a folder.

    Attributes:
        words: Number of words.
        vague: Number of vague words in each file.
    """

    words: int = 0
    vague: Counter[Path] = field(default_factory=Counter)

    @property
    def per_1000(self) -> float:
        """Vague words per 1,000."""
        return 1000 * self.vague.total() / max(self.words, 1)


def ceilings_exceeded(tree: SourceTree) -> list[Violation]:
    """Return the folders whose texts have more vague words than their ceiling allows, each by its worst file.

    One word is always allowed.
    """
    exceeded = []
    for folder, found in densities(tree).items():
        ceiling = CEILINGS.get(folder, CLEAN)
        if found.vague.total() > 1 and found.per_1000 > ceiling:
            (worst, count), words = found.vague.most_common(1)[0], ", ".join(sorted(VAGUE))
            message = f"{found.per_1000:.1f} of 1,000 words in {folder} are {words}, {count} of them here"
            exceeded.append(Violation(worst, 0, f"{message}; at most {ceiling}: name the thing"))
    return exceeded


def densities(tree: SourceTree) -> dict[str, Density]:
    """Return the density of each folder."""
    found: dict[str, Density] = {}
    for path in tree.files((*PYTHON, *CXX)):
        own = found.setdefault(folder_of(path), Density())
        for _, line in texts(tree.text(path), path):
            words = _words_of(line)
            own.words += len(words)
            own.vague[path] += sum(word in VAGUE for word in words)
    return found


def folder_of(path: Path) -> str:
    """Return the folder with which a file is counted."""
    room = next((room for room in ROOMS if path.is_relative_to(room)), "")
    depth = len(Path(room).parts) + 1
    return "/".join(path.parts[: min(depth, len(path.parts) - 1)]) or "."


def texts(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each line of a docstring, of a string below a constant, or of a C++ comment."""
    if path.suffix in PYTHON:
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from enumerate(node.value.value.splitlines(), start=node.lineno)
    else:
        for number, line in enumerate(source.splitlines(), start=1):
            if comment := CXX_COMMENT.search(line):
                yield number, comment[1]


def _words_of(line: str) -> list[str]:
    return [word.lower() for word in WORD.findall(line)]


def main() -> None:
    """List the lines with vague words below the folders given, or the density of each folder."""
    parser = argparse.ArgumentParser(description="List vague words in docstrings and C++ comments.")
    parser.add_argument("folders", nargs="*", help="folders whose lines to list; none: the density of every folder")
    folders = parser.parse_args().folders
    tree = SourceTree(REPOSITORY)
    if not folders:
        for folder, found in sorted(densities(tree).items()):
            print(f"{found.per_1000:5.1f} {folder}")  # noqa: T201 - the listing is what was asked for
    for path in tree.files((*PYTHON, *CXX), under=tuple(folders)) if folders else ():
        for number, line in texts(tree.text(path), path):
            if VAGUE & set(_words_of(line)):
                print(f"{path}:{number}: {line.strip()}")  # noqa: T201 - as above


if __name__ == "__main__":
    main()
