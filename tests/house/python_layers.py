# SPDX-License-Identifier: Apache-2.0
"""Keep the layers of the Python package: who imports whom, and who reads the environment."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.layer_tables import Row, layer_table
from tests.house.source_tree import SourceTree, Violation

HEADING = "module"
SETTINGS = ("ringtune.settings.settings", "ringtune.service.settings")
ENVIRONMENT_READERS = (*SETTINGS, "ringtune.launch", "ringtune.meeting.bootstrap", "ringtune.cli")


def import_violations(tree: SourceTree) -> list[Violation]:
    """Return the imports that the architecture does not allow, and modules it does not know."""
    rows = layer_table(tree, HEADING)
    found = []
    for module, path in tree.python_modules():
        row = _row_of(module, rows)
        if row is None or (row.name == "ringtune" and module != "ringtune"):  # the root's row is its own alone
            found.append(Violation(path, 0, f"{module} has no row in docs/architecture.md"))
            continue
        for line, imported in _imports(tree, module, path):
            reason = _objection(row, imported, rows)
            if reason:
                found.append(Violation(path, line, reason))
    return found


def environment_violations(tree: SourceTree) -> list[Violation]:
    """Return the reads of environment variables outside of settings, bootstrap, launcher and command line."""
    found = []
    for module, path in tree.python_modules():
        if not any(f"{module}.".startswith(f"{reader}.") for reader in ENVIRONMENT_READERS):
            nodes = ast.walk(ast.parse(tree.text(path)))
            lines = [getattr(node, "lineno", 0) for node in nodes if _reads_environment(node)]
            found += [Violation(path, line, f"{module} reads the environment") for line in lines]
    return found


def _reads_environment(node: ast.AST) -> bool:
    names = {"environ", "environb", "getenv"}
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and not names.isdisjoint(alias.name for alias in node.names)
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("os", name) for name in names}
    )


def _row_of(module: str, rows: dict[str, Row]) -> Row | None:
    """Return the most specific row that covers a module."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((rows[name] for name in names if name in rows), None)


def _objection(row: Row, imported: str, rows: dict[str, Row]) -> str | None:
    if imported.split(".", maxsplit=1)[0] in row.never:
        return f"{row.name} never imports {imported.split('.', maxsplit=1)[0]}"
    if imported.split(".", maxsplit=1)[0] != "ringtune":
        return None
    target = _row_of(imported, rows)
    if target is None or row.allows(target.name):
        return None
    return f"{row.name} may not import {imported}"


def _imports(tree: SourceTree, module: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute name) of everything a module imports, `from x import y` as x.y."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(tree.text(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
