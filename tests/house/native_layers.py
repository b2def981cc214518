# SPDX-License-Identifier: Apache-2.0
"""Keep the layers of the C++ engine: a folder of native/src includes only from folders below it.

A row of the table may name a folder inside another layer's, such as `engine/gpu`. Other layers include the headers that
lie in that folder itself; its subfolders are its own.
"""

import re
from pathlib import Path, PurePath

from tests.house.layer_tables import Row, layer_table
from tests.house.source_tree import CXX, SourceTree, Violation

SOURCES = "native/src"
HEADING = "layer of `native/src`"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def include_violations(tree: SourceTree) -> list[Violation]:
    """Return the includes that the architecture does not allow, and folders it does not know."""
    layers = layer_table(tree, HEADING)
    found = []
    for path in tree.files(CXX, under=(SOURCES,)):
        own = _layer_of(path.relative_to(SOURCES), layers)
        if own not in layers:
            found.append(Violation(path, 0, f"native/src/{own} is no layer of docs/architecture.md"))
            continue
        for number, header in _included_headers(tree, path):
            other = _layer_of(header, layers)
            if not layers[own].allows(other):
                found.append(Violation(path, number, f"{own} may not include from {other}"))
            elif other != own and "/" in other and header.parent != PurePath(other):
                found.append(Violation(path, number, f"{own} may include from {other}, but not from {header.parent}"))
    return found


def _layer_of(source: PurePath, layers: dict[str, Row]) -> str:
    """Return the innermost layer that a file of native/src lies in; its first folder if that is no layer."""
    folders = [str(folder) for folder in source.parents]
    return next((folder for folder in folders if folder in layers), source.parts[0])


def _included_headers(tree: SourceTree, path: Path) -> list[tuple[int, PurePath]]:
    """Return (line, header relative to native/src) of each include; one without a folder lies beside the file."""
    result = []
    for number, line in enumerate(tree.text(path).splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            header = PurePath(match[1])
            is_beside = len(header.parts) == 1
            result.append((number, path.relative_to(SOURCES).parent / header if is_beside else header))
    return result
