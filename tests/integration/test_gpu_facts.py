# SPDX-License-Identifier: Apache-2.0
"""GPUs as the driver's own library declares them, by a stand-in for that library, and as the kernel module does."""

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtune.identity.gpu_facts import NVLINK, PCIE, Gpus, find_gpus
from tests.integration.jobs import PROGRAMS
from tests.integration.nccl_plugin import COMPILER

NAME = "NVIDIA Stand-in 80GB"
INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 44\nGPU UUID: \t GPU-1\n"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: 12.3\n"

Library = Callable[..., str]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """Return the function that compiles a stand-in and returns its path."""

    def compiled(*definitions: str) -> str:
        path = tmp_path / f"libnvml-{'-'.join(definitions)}.so"  # one that is loaded already would not be loaded anew
        command = [str(COMPILER), "-shared", "-fPIC", *(f"-D{one}" for one in definitions), "-o", str(path)]
        subprocess.run([*command, str(PROGRAMS / "standin_nvml.c")], check=True)
        return str(path)

    return compiled


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_nvml_is_asked_and_let_go_of(library: Library, tmp_path: Path) -> None:
    """Names by index, the link of any GPU, the driver."""
    path = library("GPUS=4", "LINKS=1")

    gpus = find_gpus(path, tmp_path)

    assert Gpus((NAME,) * 4, NVLINK, "580.65.06") == gpus
    assert 0 == ctypes.CDLL(path).standin_users()


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_gpus_without_links_are_joined_by_pcie(library: Library, tmp_path: Path) -> None:
    """NVML's answer that links are not supported means PCIe."""
    assert Gpus((NAME,), PCIE, "580.65.06") == find_gpus(library("GPUS=1", "LINKS=0"), tmp_path)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_no_gpu_and_no_driver_are_no_gpus(library: Library, tmp_path: Path) -> None:
    """A driver's library without a driver, as in an image of a container, is no error."""
    assert () == find_gpus(library("GPUS=0", "LINKS=0"), tmp_path).names
    assert Gpus() == find_gpus(library("GPUS=1", "LINKS=0", "NO_DRIVER"), tmp_path)


def test_without_nvml_the_kernel_module_says_what_there_is(tmp_path: Path) -> None:
    """The facts are models and driver, without links."""
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "gpus" / bus).mkdir(parents=True)
        (tmp_path / "gpus" / bus / "information").write_text(INFORMATION)
    (tmp_path / "version").write_text(VERSION)

    gpus = find_gpus("no-such-library.so", tmp_path)

    assert Gpus(("NVIDIA H100 80GB HBM3",) * 2, None, "580.65.06") == gpus


def test_a_library_that_is_no_nvml_is_none(tmp_path: Path) -> None:
    """A symbol that is missing is no error."""
    assert Gpus() == find_gpus("libc.so.6", tmp_path)


def test_facts_are_what_makes_studies_comparable() -> None:
    """Model, count, link and the NCCL that carries the data by its minor version; no driver."""
    gpus = Gpus(("H100", "H100"), NVLINK, "580.65.06")

    assert {"gpus": ["H100", "H100"], "gpu_link": NVLINK} == gpus.facts()
    assert {"gpus": ["H100", "H100"], "gpu_link": NVLINK, "nccl": "2.28"} == gpus.facts("2.28.9")
    assert {} == Gpus().facts("2.28.9")
