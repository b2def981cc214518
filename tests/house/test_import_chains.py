# SPDX-License-Identifier: Apache-2.0
"""The contracts of pyproject.toml about chains of imports hold, and each notices the chain that breaks it."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import tomllib

from tests.house.source_tree import REPOSITORY

# Without `site`: an editable install's finder would show the repository's folders as parts of the package.
LINT = [sys.executable, "-S", "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
CONTRACTS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
    "contracts"
]
BESIDE = re.compile(r"\s*[:|]\s*")
ROOM = re.compile(r"`(\w+)`")
MODULE = re.compile(r"ringtune(?:\.\w+)*")


def floors(container: str) -> list[list[str]]:
    """Return the modules of a package, floor below floor, as its contract has them."""
    (found,) = (contract["layers"] for contract in CONTRACTS if contract.get("containers") == [container])
    return [BESIDE.split(floor) for floor in found]


def named_modules() -> set[str]:
    """Return every module of ringtune that a contract names."""
    containers = [container for contract in CONTRACTS for container in contract.get("containers", ())]
    on_floors = {f"{container}.{name}" for container in containers for floor in floors(container) for name in floor}
    return on_floors | set(MODULE.findall(json.dumps(CONTRACTS)))


def exceptions() -> list[list[str]]:
    """Return the imports that contracts let be: importer and imported module."""
    return [edge.split(" -> ") for contract in CONTRACTS for edge in contract.get("ignore_imports", ())]


def lint(folder: Path) -> tuple[bool, str]:
    """Return whether the package below a folder keeps the contracts, and the linter's output."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{sysconfig.get_path('purelib')}"}
    command = [*LINT, "--no-cache", "--config", str(REPOSITORY / "pyproject.toml")]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return run.returncode == 0, run.stdout + run.stderr


def small_package(folder: Path) -> Path:
    """Write a package with the modules that the contracts name, with the exceptions' imports alone, and return it."""
    for name in named_modules():
        path = folder.joinpath(*name.split("."))
        path.mkdir(parents=True, exist_ok=True)
        for package in (path, *path.parents[: name.count(".")]):
            (package / "__init__.py").touch()
    for importer, imported in exceptions():
        with folder.joinpath(*importer.split("."), "__init__.py").open("a", encoding="utf-8") as file:
            file.write(f"import {imported}\n")
    return folder / "ringtune"


def test_the_package_keeps_the_contracts() -> None:
    """No chain of imports leads where the architecture does not want it."""
    is_kept, output = lint(REPOSITORY / "native" / "python")

    assert is_kept, output


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("tuner", "torch", "the tuner reaches"),
        ("tuner/simulator", "ringtune.tuner.priors.cost_model", "simulator and cost model"),
        ("service/domain", "ringtune.session", "service and pages reach no engine"),
        ("service/domain", "torch.nn", "below the front ends"),
        ("session", "torch", "below the front ends"),
        ("jax", "torch", "a front end reaches no other"),
        ("ddp", "jax", "PyTorch's front ends"),
        ("session", "ringtune.spark", "the core reaches no platform"),
        ("client", "fastapi", "a job's client"),
        ("service/store", "ringtune.service.api", "floors of the service"),
        ("service/store", "starlette", "the service's domain and store"),
        ("dashboards/report", "ringtune.service", "pages with figures"),
        ("tuning/job", "ringtune.tuning.engine", "the kinds of a tuning job"),
        ("world", "ringtune.session", "floors of the package"),
        ("launch", "ringtune.launch", "no circles among the rooms"),
    ],
)
def test_a_chain_over_an_allowed_module_is_noticed(tmp_path: Path, importer: str, imported: str, contract: str) -> None:
    """The importer uses a module of errors, and that imports, inside a function, a module the importer may not use."""
    package = small_package(tmp_path)
    assert lint(tmp_path)[0]
    (package / importer / "__init__.py").write_text("import ringtune.errors\n", encoding="utf-8")
    (package / "errors" / "__init__.py").write_text(f"def f() -> None:\n    import {imported}\n", encoding="utf-8")

    is_kept, output = lint(tmp_path)

    assert not is_kept
    broken = [line for line in output.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken), output


def test_routes_make_no_sql(tmp_path: Path) -> None:
    """A route that imports SQLAlchemy itself is noticed; that the store below it does is as it should be."""
    package = small_package(tmp_path)
    (package / "service/store/__init__.py").write_text("import sqlalchemy\n", encoding="utf-8")
    (package / "service/api/__init__.py").write_text("import ringtune.service.store\n", encoding="utf-8")
    assert lint(tmp_path)[0]
    (package / "service/api/__init__.py").write_text("import sqlalchemy\n", encoding="utf-8")

    is_kept, output = lint(tmp_path)

    assert not is_kept
    assert "routes and pages make no SQL BROKEN" in output


def test_a_room_without_a_floor_is_noticed(tmp_path: Path) -> None:
    """Each room has its place."""
    odd = small_package(tmp_path) / "odd.py"
    odd.touch()

    is_kept, output = lint(tmp_path)

    assert not is_kept
    assert "odd" in output


def test_the_architecture_has_the_floors_of_the_contract() -> None:
    """The table that people read names the rooms in the order that is enforced."""
    page = (REPOSITORY / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("| rooms of `ringtune` | duty |\n|---|---|\n")[2].partition("\n\n")[0]

    documented = [ROOM.findall(row.split("|")[1]) for row in table.splitlines()]

    assert floors("ringtune") == documented
