# SPDX-License-Identifier: Apache-2.0
"""The torch front end with CUDA tensors, in real jobs, on a stand-in for the driver."""

from pathlib import Path

import pytest

from tests.collectives.same_bits import CASES
from tests.integration.jobs import ranks, run_job
from tests.integration.standin_libraries import compile_driver, compile_nccl

NAMES = (*(case.__name__ for case in CASES), "used", "objects", "streams", "refusals")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the stand-in for the driver."""
    return compile_driver(tmp_path_factory.mktemp("standin"))


@pytest.fixture(scope="module")
def nccl(driver: Path) -> Path:
    """Return the stand-in for NCCL."""
    return compile_nccl(driver)


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_every_operation_has_the_bits_of_cpu_memory(driver: Path, transport: str) -> None:
    """Late tensors of the device, of every dtype, through every operation; no object is left on the device."""
    environ = {"STANDIN_DRIVER": str(driver), "RINGTUNE_TRANSPORT": transport}

    finished = run_job(ranks(2, "device_tensors", *NAMES), environ)

    assert 0 == finished.code, finished.text
    assert [2] * len(NAMES) == [finished.stdout.count(f"{case}: right") for case in NAMES], finished.text
    assert 2 == finished.stdout.count("nothing is left"), finished.text


def test_what_goes_by_nccl_has_the_bits_of_cpu_memory(driver: Path, nccl: Path) -> None:
    """The same over the stand-in for NCCL: sums of two ranks, and rows that never leave their GPUs."""
    names = [name for name in NAMES if name != "scales"]  # by NCCL a scaled sum of bfloat16 is rounded twice
    environ = {"STANDIN_DRIVER": str(driver), "STANDIN_NCCL": str(nccl), "RINGTUNE_GPU_OPERATIONS": "nccl"}

    finished = run_job(ranks(2, "device_tensors", *names), environ)

    assert 0 == finished.code, finished.text
    assert [2] * len(names) == [finished.stdout.count(f"{case}: right") for case in names], finished.text
    assert 2 == finished.stdout.count("by NCCL: True"), finished.text
    assert 2 == finished.stdout.count("nothing is left"), finished.text


def test_an_error_of_the_driver_ends_the_world(driver: Path) -> None:
    """The rank that has it quotes the driver, the other one names the rank of the GPU."""
    finished = run_job(ranks(2, "device_tensors", "failing"), {"STANDIN_DRIVER": str(driver)})

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("failing: right"), finished.text
