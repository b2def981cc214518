# SPDX-License-Identifier: Apache-2.0
"""Private functions of few lines with one caller, with a ceiling for each area.

Such a function sends its reader elsewhere for a line or two. It stays where its name states a rule or a unit that its
body does not, or where it keeps its caller within the limits of a function; the others are inlined. A program cannot
tell one from the other, so the number may only fall. `python -m tests.house.one_caller [AREA...]` lists them.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.house.source_tree import PYTHON, REPOSITORY, SourceTree, Violation

SHORT = 4
"""Lines of a body, its docstring left out."""
CEILINGS: Mapping[str, int] = {
    "benchmarks": 70,
    "dashboards": 29,
    "native/python": 267,
    "service": 79,
    "tuner": 76,
}
"""Private functions of at most `SHORT` lines with one caller that an area may have."""


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
LOADS = ast.Name | ast.Attribute


def ceilings_exceeded(tree: SourceTree) -> list[Violation]:
    """Return the areas that have more short private functions with one caller than their ceiling allows."""
    exceeded = []
    for area, ceiling in CEILINGS.items():
        found = short_functions(tree, area)
        if len(found) > ceiling:
            ((worst, count),) = Counter(path for path, _, _ in found).most_common(1)
            message = (
                f"{len(found)} private functions of {area} have one caller and at most {SHORT} lines, {count} here"
            )
            exceeded.append(Violation(worst, 0, f"{message}; at most {ceiling}: inline"))
    return exceeded


def short_functions(tree: SourceTree, area: str) -> list[tuple[Path, int, str]]:
    """Return file, line and name of each short private function with one caller in an area."""
    return [
        (path, *function)
        for path in tree.files(PYTHON, under=(area,))
        for function in _short_functions_of(tree.text(path))
    ]


def _short_functions_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each private function of a module that has one caller there and a short body.

    Decorated functions (properties, routes, fixtures) are left out.
    """
    nodes = list(ast.walk(ast.parse(source)))
    names = [node.id if isinstance(node, ast.Name) else node.attr for node in nodes if isinstance(node, LOADS)]
    uses = Counter(names)
    functions = [node for node in nodes if isinstance(node, FUNCTIONS) and _is_private(node)]
    for function in functions:
        if uses[function.name] == 1 and _body_lines(function) <= SHORT:
            yield function.lineno, function.name


def _is_private(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    name = function.name
    return name.startswith("_") and not name.startswith("__") and not function.decorator_list


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function's body without its docstring."""
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def main() -> None:
    """List the short helpers of the areas given, or the number in every area."""
    parser = argparse.ArgumentParser(description="List private functions of few lines with one caller.")
    parser.add_argument("areas", nargs="*", help="folders whose functions to list; none: the number in every area")
    areas = parser.parse_args().areas
    tree = SourceTree(REPOSITORY)
    for area in areas or CEILINGS:
        found = short_functions(tree, area)
        lines = [f"{path}:{line}: {name}" for path, line, name in found] if areas else [f"{len(found):5} {area}"]
        print("\n".join(lines))  # noqa: T201 - the listing is what was asked for


if __name__ == "__main__":
    main()
