# SPDX-License-Identifier: Apache-2.0
"""Public names of the Python packages: users import them, so none goes without a line of the changelog."""

import ast
import json
from pathlib import Path

import pytest

from docs.generators.python_api import PACKAGES
from tests.house.source_tree import REPOSITORY

KEPT: dict[str, list[str]] = json.loads(Path(__file__).with_name("public_names.json").read_text(encoding="utf-8"))


def public_names(package: str) -> list[str]:
    """Return the names that a package or module offers: its `__all__`, or else its functions and classes."""
    path = REPOSITORY.joinpath("native", "python", *package.split("."))
    module = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(module.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    defined = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return sorted(name for name in defined if not name.startswith("_"))


def test_every_public_package_has_its_names_kept() -> None:
    """The packages of the reference and of the list are the same."""
    assert set(PACKAGES) == set(KEPT)


@pytest.mark.parametrize("package", KEPT)
def test_no_public_name_went(package: str) -> None:
    """A new name joins the list, in tests/contract/public_names.json; a name that is there stays."""
    assert sorted(KEPT[package]) == public_names(package)
