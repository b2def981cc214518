# SPDX-License-Identifier: Apache-2.0
"""Facts that a machine declares of its NVIDIA GPUs: models, links between them, driver.

The facts come from NVML (`libnvidia-ml.so.1`, a part of the driver), which makes no context on any GPU and needs no
package; where NVML is out of reach, from `/proc/driver/nvidia`. A machine without GPUs declares none.
"""

import ctypes
import importlib.util
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

NVML = "libnvidia-ml.so.1"
DRIVER_FOLDER = Path("/proc/driver/nvidia")
NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
"""Wheels that carry NCCL, PyTorch's among them."""
NCCL_LIBRARY = Path("nccl", "lib", "libnccl.so.2")
"""File of NCCL in such a wheel, below the package `nvidia`."""
NVLINK, PCIE = "nvlink", "pcie"
GPU_FACTS = frozenset({"gpus", "gpu_link", "nccl"})
"""Names of the facts that `Gpus.facts` returns."""
MAX_NVLINKS = 18
"""Links of a GPU that NVML numbers (NVML_NVLINK_MAX_LINKS)."""
_TEXT_BYTES = 96
_SUCCESS = 0


@dataclass(frozen=True)
class Gpus:
    """The GPUs of a machine.

    Attributes:
        names: Their models, by index.
        link: Kind of their links: `nvlink` where any has an active link, else `pcie`; None where it is not known.
        driver: The driver's version, or None.
    """

    names: tuple[str, ...] = ()
    link: str | None = None
    driver: str | None = None

    def facts(self, nccl: str | None = None) -> dict[str, Any]:
        """Return the GPUs' part of a machine's facts; empty without GPUs.

        Versions of drivers are no part: another driver makes no study worthless.

        Args:
            nccl: Version of the NCCL that carries the data, of which major and minor number count; or None.
        """
        if not self.names:
            return {}
        carried = {} if nccl is None else {"nccl": ".".join(nccl.split(".")[:2])}
        return {"gpus": list(self.names), "gpu_link": self.link, **carried}


def find_gpus(library: str = NVML, folder: Path = DRIVER_FOLDER) -> Gpus:
    """Return this machine's GPUs; never raises.

    Args:
        library: NVML, as the loader finds it.
        folder: Folder in which the kernel module describes itself.
    """
    try:
        nvml = ctypes.CDLL(library)
        with _initialised(nvml):
            devices = _devices(nvml)
            return Gpus(tuple(_name(nvml, device) for device in devices), _link(nvml, devices), _driver(nvml))
    except (OSError, AttributeError):  # not installed, no driver running, or too old
        return _described(folder)


def find_nccl() -> str:
    """Return the path of the NCCL that is installed beside ringtune; empty where there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = () if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    return next((str(file) for folder in folders if (file := Path(folder) / NCCL_LIBRARY).is_file()), "")


def installed_nccl() -> str | None:
    """Return the version of the NCCL that this environment's packages bring, or None."""
    return next(filter(None, map(_version, NCCL_PACKAGES)), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@contextmanager
def _initialised(nvml: ctypes.CDLL) -> Iterator[None]:
    _check(nvml.nvmlInit_v2())
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _check(status: int) -> None:
    if status != _SUCCESS:
        raise OSError(f"NVML answers {status}")


def _devices(nvml: ctypes.CDLL) -> Sequence[ctypes.c_void_p]:
    count = ctypes.c_uint()
    _check(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    devices = [ctypes.c_void_p() for _ in range(count.value)]
    for index, device in enumerate(devices):
        _check(nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)))
    return devices


def _name(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(nvml.nvmlDeviceGetName(device, text, ctypes.c_uint(_TEXT_BYTES)))
    return text.value.decode(errors="replace")


def _link(nvml: ctypes.CDLL, devices: Sequence[ctypes.c_void_p]) -> str:
    """Return the kind of link between the GPUs; a GPU without NVLink answers that it does not support it."""
    for device in devices:
        for link in range(MAX_NVLINKS):
            is_active = ctypes.c_uint()
            status = nvml.nvmlDeviceGetNvLinkState(device, ctypes.c_uint(link), ctypes.byref(is_active))
            if status == _SUCCESS and is_active.value:
                return NVLINK
    return PCIE


def _driver(nvml: ctypes.CDLL) -> str:
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    _check(nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(_TEXT_BYTES)))
    return text.value.decode(errors="replace")


def _described(folder: Path) -> Gpus:
    """Return the GPUs that the kernel module's files list; these do not name the links."""
    texts = [_text(path) for path in sorted(folder.glob("gpus/*/information"))]
    models = [match[1].strip() for text in texts for match in re.finditer(r"^Model:(.*)$", text, re.MULTILINE)]
    version = re.search(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", _text(folder / "version"))
    return Gpus(tuple(models), None, None if version is None else version[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
