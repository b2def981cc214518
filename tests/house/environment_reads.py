# SPDX-License-Identifier: Apache-2.0
"""Keep the reads of environment variables in the few modules that are there for them."""

import ast

from tests.house.source_tree import SourceTree, Violation

SETTINGS = ("ringtune.settings.settings", "ringtune.service.settings")
IN_TORCHS_IMPORT = "ringtune.torch_backend.registration"  # has a few milliseconds, and so no time for the settings
ENVIRONMENT_READERS = (*SETTINGS, "ringtune.launch", "ringtune.meeting.bootstrap", "ringtune.cli", IN_TORCHS_IMPORT)


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
