# SPDX-License-Identifier: Apache-2.0
"""The torch front end with CUDA tensors, in real jobs, on a stand-in for the driver."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.jobs import REPOSITORY, ranks, run_job

SOURCES = REPOSITORY / "tests" / "native" / "device"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the stand-in, a library with the driver's name."""
    library = tmp_path_factory.mktemp("standin") / "libcuda.so.1"
    compiler = [
        os.environ.get("CXX", "c++"),
        "-std=c++20",
        "-O1",
        "-shared",
        "-fPIC",
        "-pthread",
        "-Wl,-soname,libcuda.so.1",
    ]
    sources = sorted(map(str, SOURCES.glob("standin_*.cpp")))
    subprocess.run([*compiler, *sources, "-o", str(library)], check=True)
    return library


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_every_operation_has_the_bits_of_cpu_memory(driver: Path, transport: str) -> None:
    """Late tensors of the device, of every dtype, through every operation; nothing is left on the device afterwards."""
    cases = ("allreduce", "others", "moved", "streams", "refusals")
    environ = {"STANDIN_DRIVER": str(driver), "RINGTUNE_TRANSPORT": transport}

    finished = run_job(ranks(2, "device_tensors", *cases), environ)

    assert 0 == finished.code, finished.text
    assert [2] * len(cases) == [finished.stdout.count(f"{case}: right") for case in cases], finished.text
    assert 2 == finished.stdout.count("nothing is left"), finished.text


def test_an_error_of_the_driver_ends_the_world(driver: Path) -> None:
    """The rank that has it says what the driver said, the other one whose GPU it was."""
    finished = run_job(ranks(2, "device_tensors", "failing"), {"STANDIN_DRIVER": str(driver)})

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("failing: right"), finished.text
