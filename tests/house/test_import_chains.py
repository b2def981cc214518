# SPDX-License-Identifier: Apache-2.0
"""The contracts of pyproject.toml about chains of imports hold, and each notices the chain that breaks it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.house.source_tree import REPOSITORY

# Without `site`: an editable install's finder would show the repository's folders as parts of the package.
LINT = [sys.executable, "-S", "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
PACKAGES = (
    *("app", "client", "dashboards", "ddp", "engine_tuning", "errors", "fsdp", "launch", "launch_tuning"),
    *("model_tuning", "service", "service_link", "session", "tuner", "tuning", "world"),
    *("service.api", "service.domain", "service.store", "service.app", "tuner.gp"),
)


def lint(folder: Path) -> tuple[bool, str]:
    """Return whether the package below a folder keeps the contracts, and what was said."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{sysconfig.get_path('purelib')}"}
    command = [*LINT, "--no-cache", "--config", str(REPOSITORY / "pyproject.toml")]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return run.returncode == 0, run.stdout + run.stderr


def small_package(folder: Path) -> Path:
    """Write a package with the modules that the contracts name, all empty, and return it."""
    for name in ("", *PACKAGES):
        path = folder.joinpath("ringtune", *name.split("."))
        path.mkdir(parents=True, exist_ok=True)
        (path / "__init__.py").touch()
    return folder / "ringtune"


def test_the_package_keeps_the_contracts() -> None:
    """No chain of imports leads where the architecture does not want it."""
    is_kept, said = lint(REPOSITORY / "native" / "python")

    assert is_kept, said


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("tuner/gp", "torch", "the tuner reaches"),
        ("tuner", "ringtune.client", "the tuner reaches"),
        ("service/domain", "ringtune.session.session", "the service and its pages"),
        ("dashboards", "torch.nn", "the service and its pages"),
        ("service/store", "ringtune.service.api", "the service's layers"),
        ("tuning", "ringtune.ddp", "the shared tuning job"),
        ("service_link", "ringtune.world.world", "the job's client"),
        ("launch", "ringtune.launch", "no circles among the rooms"),
    ],
)
def test_a_chain_over_an_allowed_module_is_noticed(tmp_path: Path, importer: str, imported: str, contract: str) -> None:
    """The importer uses a module of errors, and that, inside a function, what the importer may not."""
    package = small_package(tmp_path)
    assert lint(tmp_path)[0]
    (package / importer / "__init__.py").write_text("import ringtune.errors\n", encoding="utf-8")
    (package / "errors" / "__init__.py").write_text(f"def f() -> None:\n    import {imported}\n", encoding="utf-8")

    is_kept, said = lint(tmp_path)

    assert not is_kept
    broken = [line for line in said.splitlines() if line.endswith(" BROKEN")]
    assert any(line.startswith(contract) for line in broken), said
