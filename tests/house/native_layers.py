# SPDX-License-Identifier: Apache-2.0
"""Keep the layers of the C++ engine: a folder of native/src includes only from folders below it."""

import re
from pathlib import Path

from tests.house.layer_tables import layer_table
from tests.house.source_tree import CXX, SourceTree, Violation

SOURCES = "native/src"
HEADING = "layer of `native/src`"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def include_violations(tree: SourceTree) -> list[Violation]:
    """Return the includes that the architecture does not allow, and folders it does not know."""
    layers = layer_table(tree, HEADING)
    found = []
    for path in tree.files(CXX, under=(SOURCES,)):
        layer = path.relative_to(SOURCES).parts[0]
        if layer not in layers:
            found.append(Violation(path, 0, f"native/src/{layer} is no layer of docs/architecture.md"))
            continue
        for number, included in _includes(tree, path):
            if not layers[layer].allows(included):
                found.append(Violation(path, number, f"{layer} may not include from {included}"))
    return found


def _includes(tree: SourceTree, path: Path) -> list[tuple[int, str]]:
    """Return (line, layer) of each include of a project header; an include without a folder is its own layer's."""
    own = path.relative_to(SOURCES).parts[0]
    result = []
    for number, line in enumerate(tree.text(path).splitlines(), start=1):
        match = INCLUDE.match(line)
        if match:
            parts = Path(match[1]).parts
            result.append((number, parts[0] if len(parts) > 1 else own))
    return result
