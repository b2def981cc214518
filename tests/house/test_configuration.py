# SPDX-License-Identifier: Apache-2.0
"""The tools are configured as strictly as the house says, and the build is described once."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.house.layer_tables import layer_table
from tests.house.native_layers import HEADING
from tests.house.source_tree import LINKS, REPOSITORY, SourceTree

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")


def pyproject() -> dict[str, Any]:
    """Return the parsed pyproject.toml."""
    return dict(tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")))


def test_ruff_demands_docstrings_annotations_and_small_functions() -> None:
    """Public docstrings, annotations, complexity and positional parameters are selected and bounded."""
    lint = pyproject()["tool"]["ruff"]["lint"]

    assert {"D", "ANN", "C90", "ERA", "S", "PLR0917"} <= {*lint["select"], *lint["extend-select"]}
    assert "google" == lint["pydocstyle"]["convention"]
    assert 10 == lint["mccabe"]["max-complexity"]
    assert 5 == lint["pylint"]["max-positional-args"]


def test_no_source_folder_is_excused_from_docstrings() -> None:
    """Only stubs, tests and scripts have exceptions, and none of them drops docstrings or annotations."""
    exceptions = pyproject()["tool"]["ruff"]["lint"]["per-file-ignores"]

    assert {"tests/**", "examples/**", "benchmarks/**", "**/*.pyi"} == set(exceptions)
    assert not {"D", "ANN"} & {rule for rules in exceptions.values() for rule in rules}


def test_types_are_checked_strictly() -> None:
    """Mypy runs in strict mode."""
    assert pyproject()["tool"]["mypy"]["strict"] is True


def test_every_ignored_rule_has_its_reason() -> None:
    """Each code in ruff's ignore list stands on a line with a comment."""
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    ignored = re.search(r"^ignore = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)

    assert ignored is not None
    assert all(re.search(r'",\s+# \w', line) for line in ignored[1].splitlines())


def test_the_build_tools_are_what_the_build_system_requires() -> None:
    """A build without isolation has the same requirements as one with it, and their lock."""
    build = pyproject()["dependency-groups"]["build"]

    assert set(pyproject()["build-system"]["requires"]) <= set(build)


def test_the_version_stands_in_one_place() -> None:
    """The package's module says it: the metadata reads it there, and the files that the documentation names have it."""
    module = (REPOSITORY / "native/python/ringtune/version.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', module, re.MULTILINE)
    page = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")

    assert version is not None
    assert "version" in pyproject()["project"]["dynamic"]
    assert {version[1]} == set(re.findall(r"ringtune-(\d[\d.]*\d)", page))
    second = (REPOSITORY / "native/horovodrun/pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{version[1]}"' in second


@pytest.mark.parametrize("link", LINKS)
def test_the_links_for_static_tools_are_relative(link: str) -> None:
    """Each package folder is reachable below the package root, from any checkout."""
    target = (REPOSITORY / link).readlink()

    assert Path("../../..") / Path(link).name == target


def test_cmake_links_the_layers_that_the_architecture_allows() -> None:
    """The targets of native/CMakeLists.txt and the table of docs/architecture.md name the same layers and arrows."""
    cmake = (REPOSITORY / "native/CMakeLists.txt").read_text(encoding="utf-8")
    documented = {name: set(row.may_use) for name, row in layer_table(SourceTree(REPOSITORY), HEADING).items()}
    del documented["bindings"]  # no layer of its own in CMake: the Python module

    linked = dict(re.findall(r"^add_layer\(([\w/]+)(?: USES ([^)]*))?\)", cmake, re.MULTILINE))

    assert documented == {name: set(uses.split()) for name, uses in linked.items()}
