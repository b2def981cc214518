# SPDX-License-Identifier: Apache-2.0
"""Keep the documentation complete and easy to enter.

Every variable and every knob of the code stands in it, and no other. A question has one page; the front page is short.
"""

import re
from pathlib import Path

from tests.house.source_tree import SourceTree, Violation

PACKAGE = "native/python/ringtune"
PARAMETERS = Path("tuner/space/parameters.py")
ENVIRONMENT_PAGE = Path("docs/reference/environment.md")
VARIABLE = re.compile(r"(?:AUTOTUNE|RINGTUNE)(?:_[A-Z0-9]+)*")
LITERAL = re.compile(r"""["'`]([A-Z][A-Z0-9_]*)["'`]""")
FIRST_CELL = re.compile(r"^\|([^|]*)\|", re.MULTILINE)
KNOB_NAME = re.compile(r"""Parameter\(\s*["']([a-z_]+)["']""")
MOST_LINES = {Path("README.md"): 95, Path("docs/architecture.md"): 115}
"""Pages of two screens, and their lines at most, tables included."""


def variable_violations(tree: SourceTree) -> list[Violation]:
    """Return the variables that only the code or only the environment page knows."""
    documented = _variables(" ".join(FIRST_CELL.findall(tree.text(ENVIRONMENT_PAGE))))
    read = _variables("\n".join(tree.text(path) for path in tree.files((".py",), under=(PACKAGE,))))
    read |= {f"RINGTUNE_{knob.upper()}" for knob in _knobs(tree)}
    missing = [Violation(ENVIRONMENT_PAGE, 0, f"has no row for {name}") for name in sorted(read - documented)]
    return missing + [Violation(ENVIRONMENT_PAGE, 0, f"{name} is read nowhere") for name in sorted(documented - read)]


def knob_violations(tree: SourceTree) -> list[Violation]:
    """Return the knobs of the search space that the environment page does not explain."""
    page = tree.text(ENVIRONMENT_PAGE)
    knobs = _knobs(tree)
    return [
        Violation(ENVIRONMENT_PAGE, 0, f"does not explain {knob}") for knob in sorted(knobs) if f"`{knob}`" not in page
    ]


def twin_pages(tree: SourceTree) -> list[Violation]:
    """Return the pages of docs/ that share their name with a page in another folder: two answers to one question."""
    seen: dict[str, Path] = {}
    found = []
    for path in tree.files((".md",), under=("docs",)):
        if path.name in seen:
            found.append(Violation(path, 0, f"has the name of {seen[path.name]}: make them one page"))
        seen.setdefault(path.name, path)
    return found


def long_pages(tree: SourceTree) -> list[Violation]:
    """Return the pages of `MOST_LINES` that are longer than two screens."""
    lines = {page: len(tree.text(page).splitlines()) for page in tree.files(under=tuple(map(str, MOST_LINES)))}
    return [
        Violation(page, 0, f"{count} lines, at most {MOST_LINES[page]}: move details to another page")
        for page, count in lines.items()
        if count > MOST_LINES[page]
    ]


def _knobs(tree: SourceTree) -> set[str]:
    return set(KNOB_NAME.findall(tree.text(PARAMETERS)))


def _variables(text: str) -> set[str]:
    """Return the environment variables that are named between quotes or backticks."""
    return {name for name in LITERAL.findall(text) if VARIABLE.fullmatch(name)}
