# SPDX-License-Identifier: Apache-2.0
"""The walks of `docs/ways` hold: each file and function exists, and each hop is made by the code.

A walk is a table whose heading row is `| # | from | file | function | what happens |`. "from" is the number of the row
whose file calls, imports or registers this row's function; a row with a dash there begins a thread of its own.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.house.source_tree import PYTHON, SourceTree, Violation

FOLDER = Path("docs/ways")
HEADING = re.compile(r"^# The way of (?P<name>.+?)\s*$")
ROW = re.compile(
    r"^\| (?P<number>\d+) \| (?P<origin>\d+|-) \| `(?P<file>[^`]+)` \| `(?P<function>[^`]+)` \| (?P<duty>.+) \|$"
)
CXX_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CXX_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
CXX_DEFINITION = re.compile(r"^\w.*$", re.MULTILINE)
"""Lines that begin at the margin: definitions. Calls are indented."""
CXX_CALL = re.compile(r"\b(\w+)\s*\(")
CXX_ADDRESS = re.compile(r"&(?:\w+::)*(\w+)")
CALLABLE = ("__call__", "__init__")


@dataclass(frozen=True)
class Stop:
    """A row of a walk: the function that a tensor, sample or query passes, and the row that hands it on."""

    page: Path
    line: int
    number: int
    origin: int | None
    file: Path
    function: str

    @property
    def symbol(self) -> str:
        """The name by which other code reaches the function; a callable object is reached by its class."""
        parts = self.function.split(".") if self.file.suffix in PYTHON else self.function.split("::")
        return parts[-2] if parts[-1] in CALLABLE else parts[-1]


def walks(tree: SourceTree) -> dict[str, list[Stop]]:
    """Return the walks of the pages by name, with their rows in order. A page without a table has none."""
    found: dict[str, list[Stop]] = {}
    for page in tree.files((".md",), under=(str(FOLDER),)):
        lines = tree.text(page).splitlines()
        heading = HEADING.match(lines[0])
        rows = [(number, row) for number, line in enumerate(lines, start=1) if (row := ROW.match(line))]
        if heading and rows:
            found[heading["name"]] = [_stop(page, number, row) for number, row in rows]
    return found


def _stop(page: Path, line: int, row: re.Match[str]) -> Stop:
    origin = None if row["origin"] == "-" else int(row["origin"])
    return Stop(page, line, int(row["number"]), origin, Path(row["file"]), row["function"])


def walk_violations(tree: SourceTree) -> list[Violation]:
    """Return the rows whose file or function is not there, or that the row before them does not reach."""
    return [
        Violation(stop.page, stop.line, fault) for walk in walks(tree).values() for stop, fault in _faults(tree, walk)
    ]


def _faults(tree: SourceTree, walk: list[Stop]) -> Iterator[tuple[Stop, str]]:
    for place, stop in enumerate(walk):
        if stop.number != place + 1 or (stop.origin is not None and not 0 < stop.origin < stop.number):
            yield stop, f"row {stop.number} is out of order; rows count from 1, and come from an earlier one"
        elif not (tree.root / stop.file).is_file():
            yield stop, f"{stop.file} does not exist"
        elif not defines(tree, stop.file, stop.function):
            yield stop, f"{stop.file} does not define {stop.function}"
        elif stop.origin is not None and not _is_reached(tree, stop, walk[stop.origin - 1].file):
            yield stop, f"{walk[stop.origin - 1].file} (row {stop.origin}) does not use {stop.symbol} of {stop.file}"


def defines(tree: SourceTree, path: Path, function: str) -> bool:
    """Return whether a file defines a function, method (`Class.name`, `Class::name`), class or constant."""
    text = tree.text(path)
    if path.suffix in PYTHON:
        return function in _python_names(ast.parse(text).body)
    return re.search(rf"^[\w:<>,*&\[\] ]*\b{re.escape(function)}\s*\(", _cxx_code(text), re.MULTILINE) is not None


def _is_reached(tree: SourceTree, stop: Stop, origin: Path) -> bool:
    """Return whether the code of the file before names the symbol; in the same file, besides its definition."""
    if not (tree.root / origin).is_file():
        return True  # a fault of the row before
    text = tree.text(origin)
    uses = _python_uses(text) if origin.suffix in PYTHON else _cxx_uses(text)
    return stop.symbol in uses


def _python_names(body: list[ast.stmt], prefix: str = "") -> set[str]:
    """Return functions, classes, methods and constants that statements define, with the names of their classes."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(prefix + node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {prefix + node.name} | _python_names(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign):
            names |= {prefix + target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _python_uses(text: str) -> set[str]:
    """Return the names that code loads, reaches as attributes, imports or registers by a decorator; texts are none."""
    uses: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            uses.add(node.attr)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            uses |= {alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list:
            uses.add(node.name)
    return uses


def _cxx_code(text: str) -> str:
    return CXX_TEXT.sub('""', CXX_COMMENT.sub("", text))


def _cxx_uses(text: str) -> set[str]:
    """Return the names that code calls or takes the address of, definitions left out."""
    code = CXX_DEFINITION.sub("", _cxx_code(text))
    return set(CXX_CALL.findall(code)) | set(CXX_ADDRESS.findall(code))
