# SPDX-License-Identifier: Apache-2.0
"""What `ringtune doctor` finds: facts of this machine that decide whether, and how fast, a job runs."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Mapping

from ringtune import __version__
from ringtune.errors import ConfigError

from .algorithm_tables.store import TableStore
from .fingerprints import hardware_facts, hardware_fingerprint, machine_facts
from .gpu_facts import find_gpus
from .rendezvous.interfaces import own_networks

Findings = list[tuple[str, str]]

PACKAGES = ("torch", "tensorflow", "jax", "mpi4py")
COMPILERS = ("c++", "g++", "clang++")
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  (its size is a finding; nothing is written there)
LAUNCHERS = ("mpirun", "mpiexec", "torchrun", "srun", "ssh")


def examine(environ: Mapping[str, str]) -> Findings:
    """Return what was found, as (what, finding) pairs.

    Args:
        environ: For `XDG_CACHE_HOME`, where algorithm tables are kept.
    """
    return [
        ("ringtune", __version__),
        ("python", f"{platform.python_version()} on {platform.platform()}"),
        ("engine", _engine()),
        ("cuda", _cuda()),
        ("cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"),
        (SHARED_MEMORY_FOLDER, _shared_memory()),
        ("transports", "shm (inside a host), tcp (between hosts), mpi (between hosts, through mpi4py)"),
        ("networks", ", ".join(own_networks()) or "none but loopback"),
        *_algorithm_tables(TableStore.of_user(environ)),
        *[(name, _version(name)) for name in PACKAGES],
        *[(name, shutil.which(name) or "not found") for name in (*COMPILERS, *LAUNCHERS)],
    ]


def fingerprint_report(environ: Mapping[str, str]) -> Findings:
    """Return the facts of this machine and the key of a job that runs on it alone.

    Args:
        environ: For `RINGTUNE_HARDWARE`, which overrides the facts.
    """
    override = environ.get("RINGTUNE_HARDWARE")
    hardware = hardware_facts([machine_facts()], "shm")
    facts = [(name, str(value)) for name, value in hardware[0].items()]
    if override is not None:
        facts = [("RINGTUNE_HARDWARE", override)]
    return [*facts, ("hardware", hardware_fingerprint(hardware, override)), *_gpu_findings(override)]


def _gpu_findings(override: str | None) -> Findings:
    """Return the GPUs, and the key of a job whose tensors are on them; nothing where there are none."""
    gpus = find_gpus()
    if not gpus.names:
        return []
    on_gpus = hardware_facts([machine_facts(gpus)], "shm")
    found = [(name, str(value)) for name, value in gpus.facts().items()]
    return [*found, ("driver", str(gpus.driver)), ("hardware (GPUs)", hardware_fingerprint(on_gpus, override))]


def _engine() -> str:
    try:
        from ringtune import _engine as engine  # noqa: PLC0415  (its absence is a finding, not an error)
    except ImportError as error:
        return f"cannot be loaded: {error}"
    try:
        os.close(engine.create_segment(2))
    except ConfigError as error:
        return f"loads, but has no shared memory: {error}"
    return f"loads; allreduce algorithms: {', '.join(engine.allreduce_algorithms())}"


def _cuda() -> str:
    try:
        from ringtune import _engine as engine  # noqa: PLC0415  (its absence is a finding, not an error)
    except ImportError:
        return "not known without the engine"
    if engine.has_cuda():
        return "a driver and a device; torch for CUDA makes tensors on it"
    return "no driver (libcuda.so.1) or no device: tensors are in CPU memory"


def _algorithm_tables(store: TableStore) -> Findings:
    """Return the tables that jobs here have measured, each with the ranks per host that it is for."""
    name = "algorithm table"
    found = [
        (name, f"{path.name} cannot be read" if table is None else f"{path.name}, {table.summary()}")
        for path, table in store.tables()
    ]
    return found or [(name, "none measured yet: the compiled-in one")]


def _shared_memory() -> str:
    try:
        usage = shutil.disk_usage(SHARED_MEMORY_FOLDER)
    except OSError as error:
        return f"not there ({error.strerror}); the engine does not need it"
    return f"{usage.free / 2**20:.0f} MiB free of {usage.total / 2**20:.0f}; the engine does not need it (memfd)"


def _version(package: str) -> str:
    if importlib.util.find_spec(package) is None:
        return "not installed"
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "found, of unknown version"
