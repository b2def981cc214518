# SPDX-License-Identifier: Apache-2.0
"""An environment with the wheel, PyTorch and the service: installed once, for all tests of this folder."""

import re
from pathlib import Path

import pytest

from tests.package.distributions import REPOSITORY, wheel
from tests.package.environments import Environment, create


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel with the extras torch and service; PyTorch in the version that development is pinned to."""
    pinned = re.search(
        r'^ +"(torch==[\d.]+)"', (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert pinned is not None
    environment = create(tmp_path_factory.mktemp("installed"))
    environment.install(f"{wheel()}[torch,service]", pinned[1])
    return environment


@pytest.fixture(scope="session")
def with_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install the wheel before the packages of `make setup-tensorflow`."""
    tensorflow = REPOSITORY / ".venv-tensorflow"
    if not Path(tensorflow, "lib").is_dir():
        pytest.skip("no TensorFlow: `make setup-tensorflow` installs it")
    environment = create(tmp_path_factory.mktemp("tensorflow"), on_top_of=tensorflow)
    environment.install(str(wheel()), options=("--no-deps", "--ignore-installed"))  # .venv-tensorflow has one, too
    return environment
