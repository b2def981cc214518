# SPDX-License-Identifier: Apache-2.0
"""Keep the documentation complete: every variable and every knob of the code stands in it, and no other."""

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


def _knobs(tree: SourceTree) -> set[str]:
    return set(KNOB_NAME.findall(tree.text(PARAMETERS)))


def _variables(text: str) -> set[str]:
    """Return the environment variables that are named between quotes or backticks."""
    return {name for name in LITERAL.findall(text) if VARIABLE.fullmatch(name)}
