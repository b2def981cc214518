# SPDX-License-Identifier: Apache-2.0
"""The registration of the backend with torch."""

import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from torch import distributed as dist
from torch.distributed import distributed_c10d

from ringtune.torch_backend.registration import NAME, register

LOOK = """
import sys
import torch
import torch.distributed as dist
print(dist.is_backend_available("ringtune"), "ringtune._engine" in sys.modules, "ringtune.torch" in sys.modules)
"""
MODULE = "torch.distributed.distributed_c10d"


@pytest.fixture
def distributed() -> Iterator[Any]:
    """Torch's module, put back afterwards."""
    yield distributed_c10d
    sys.modules[MODULE] = distributed_c10d


def test_importing_torch_registers_the_backend_without_the_engine() -> None:
    """Importing torch alone makes the name known, and loads neither the engine nor the front end."""
    output = subprocess.run([sys.executable, "-c", LOOK], check=True, capture_output=True, text=True).stdout

    assert "True False False" == output.strip()


def test_torch_finds_the_entry_point() -> None:
    """The package announces its registration in the group that torch loads."""
    found = [point.value for point in entry_points(group="torch.backends") if point.name == NAME]

    assert ["ringtune.torch_backend.registration:register"] == found


def test_the_backend_is_for_cpu_and_cuda() -> None:
    """The name may stand for tensors of either device, and takes neither away from Gloo and NCCL."""
    register()

    assert ["cpu", "cuda"] == dist.Backend.backend_capability[NAME]
    assert "gloo" == dist.Backend.default_device_backend_map["cpu"]


@pytest.mark.parametrize("torch_of_another_age", [None, types.ModuleType("empty"), object()])
def test_a_torch_without_such_a_registration_is_left_alone(distributed: Any, torch_of_another_age: Any) -> None:
    """A torch that lacks the class or its method is imported as without ringtune."""
    del distributed
    sys.modules[MODULE] = torch_of_another_age

    register()
