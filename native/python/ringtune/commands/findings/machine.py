# SPDX-License-Identifier: Apache-2.0
"""The machine and the installation: processor, memory that is shared, network, GPUs, engine, packages."""

import importlib.util
import os
import platform
import shutil
from importlib import metadata

from ringtune.errors import ConfigError
from ringtune.identity.fingerprints import machine_facts
from ringtune.identity.gpu_facts import Gpus, find_gpus, find_nccl, installed_nccl
from ringtune.meeting.rendezvous.interfaces import own_networks
from ringtune.system.counts import counted
from ringtune.system.usable_cores import usable_cores
from ringtune.version import __version__

from .finding import DoctorSection, FoundProblem

PACKAGES = ("torch", "tensorflow", "jax", "mpi4py")
COMPILERS = ("c++", "g++", "clang++")
LAUNCHERS = ("mpirun", "mpiexec", "torchrun", "srun", "ssh")
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  (its size is a finding; nothing is written there)
CPU_BUILD = "+cpu"
"""End of the version of a PyTorch that has no CUDA."""


def examine_machine() -> DoctorSection:
    """Return the versions of ringtune and Python, and the machine's processor, memory and networks."""
    facts = machine_facts()
    usable = usable_cores()
    cores = f"{usable} usable of {facts['cores']}, {facts['numa_nodes']} NUMA node{'s' * (facts['numa_nodes'] > 1)}"
    return DoctorSection(
        "machine",
        (
            ("ringtune", __version__),
            ("python", f"{platform.python_version()} on {platform.platform()}"),
            ("cpu", str(facts["cpu_model"])),
            ("cores", cores),
            ("load", " / ".join(f"{load:.1f}" for load in os.getloadavg()) + " over 1 / 5 / 15 minutes"),
            (SHARED_MEMORY_FOLDER, _shared_memory()),
            ("networks", ", ".join(own_networks()) or "none but loopback"),
        ),
        _load_problems(os.getloadavg()[0], int(facts["cores"])),
    )


def _load_problems(load: float, cores: int) -> tuple[FoundProblem, ...]:
    """Return that the machine is busy, if more processes want to run than it has cores; noise decides verdicts.

    Args:
        load: Processes that run or want to, over the last minute, of the whole machine.
        cores: Cores of the whole machine.
    """
    if load <= cores:
        return ()
    what = f"the machine is busy: {load:.1f} processes want to run, on {counted(cores, 'core')}"
    remedy = "measure, compare and tune when it is quiet: steps scatter now, and small gains cannot be shown."
    return (FoundProblem(what, remedy),)


def examine_engine() -> DoctorSection:
    """Return whether the engine loads, and which transports and features it has."""
    transports = ("transports", "shm (inside a host), tcp (between hosts), mpi (between hosts, through mpi4py)")
    try:
        from ringtune import _engine as engine  # noqa: PLC0415  (its absence is a finding, not an error)
    except ImportError as error:
        problem = FoundProblem(
            f"the engine cannot be loaded: {error}",
            "install ringtune again for this Python; in a clone, run `make setup`.",
        )
        return DoctorSection("engine", (("engine", f"cannot be loaded: {error}"),), (problem,))
    try:
        os.close(engine.create_segment(2))
    except ConfigError as error:
        remedy = "raise the limits of memory and descriptors (`ulimit -a`, the container's memory limit)."
        problem = FoundProblem(f"the engine has no shared memory: {error}", remedy)
        return DoctorSection(
            "engine", (("engine", f"loads, but has no shared memory: {error}"), transports), (problem,)
        )
    loads = f"loads; allreduce algorithms: {', '.join(engine.allreduce_algorithms())}"
    return DoctorSection("engine", (("engine", loads), transports, ("compiled for", _compiled_parts())))


def _compiled_parts() -> str:
    from ringtune.graph_operations.graph_library import built_libraries  # noqa: PLC0415  (needs the engine)

    commands = ", ".join(f"python -m ringtune.{name}" for name in ("torch_backend", "tensorflow_op", "jax_op"))
    return ", ".join(built_libraries()) or f"nothing here; optional: {commands}"


def examine_gpus() -> DoctorSection:
    """Return the GPUs, their driver, NCCL, torch's support of them, and the problems that keep them from being used."""
    gpus, nccl, torch = find_gpus(), installed_nccl(), _version("torch")
    usable = "a driver and a device; torch for CUDA makes tensors on it"
    unusable = "no driver (libcuda.so.1) or no device: tensors are in CPU memory"
    findings = [
        ("GPUs", _gpu_names(gpus)),
        ("driver", gpus.driver or "none"),
        ("cuda", usable if _engine_has_cuda() else unusable),
        ("nccl", _nccl(nccl)),
    ]
    return DoctorSection("GPUs", findings, _gpu_problems(gpus, nccl, torch) if gpus.names else ())


def examine_packages() -> DoctorSection:
    """Return the versions of the frameworks, and the programs that build or launch."""
    packages = [(name, _version(name) or "not installed") for name in PACKAGES]
    programs = [(name, shutil.which(name) or "not found") for name in (*COMPILERS, *LAUNCHERS)]
    return DoctorSection("packages and programs", [*packages, *programs])


def _gpu_problems(gpus: Gpus, nccl: str | None, torch: str | None) -> list[FoundProblem]:
    """Return the problems that keep the GPUs of this machine from being used."""
    count = f"{len(gpus.names)} GPU{'s' if len(gpus.names) > 1 else ''}"
    found = []
    if not _engine_has_cuda():
        remedy = "check CUDA_VISIBLE_DEVICES, and that libcuda.so.1 of the driver can be loaded."
        found.append(FoundProblem(f"the driver shows {count}, and CUDA finds no device", remedy))
    if torch is not None and torch.endswith(CPU_BUILD):
        remedy = "install a build for CUDA, so that tensors can be on the GPU."
        found.append(FoundProblem(f"torch {torch} is a build for CPUs, and the driver shows {count}", remedy))
    if nccl is None and not find_nccl():
        remedy = "install torch for CUDA, or the wheel nvidia-nccl-cu12; until then tensors go through host memory."
        found.append(FoundProblem(f"the driver shows {count}, and there is no NCCL", remedy))
    return found


def _gpu_names(gpus: Gpus) -> str:
    if not gpus.names:
        return "none seen (neither NVML nor /proc/driver/nvidia has any)"
    kinds = dict.fromkeys(gpus.names)
    names = ", ".join(f"{gpus.names.count(name)} x {name}" for name in kinds)
    return names if gpus.link is None else f"{names}, joined by {gpus.link}"


def _engine_has_cuda() -> bool:
    try:
        from ringtune import _engine as engine  # noqa: PLC0415  (its absence is a finding, not an error)
    except ImportError:
        return False
    return engine.has_cuda()


def _nccl(version: str | None) -> str:
    path = find_nccl()
    if version is None and not path:
        return "not installed"
    return " at ".join(filter(None, (version or "of unknown version", path)))


def _shared_memory() -> str:
    try:
        usage = shutil.disk_usage(SHARED_MEMORY_FOLDER)
    except OSError as error:
        return f"not there ({error.strerror}); the engine does not need it"
    return f"{usage.free / 2**20:.0f} MiB free of {usage.total / 2**20:.0f}; the engine does not need it (memfd)"


def _version(package: str) -> str | None:
    """Return a package's version, None where it is not installed."""
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "found, of unknown version"
