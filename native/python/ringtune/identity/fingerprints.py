# SPDX-License-Identifier: Apache-2.0
"""The keys of studies: model, hardware, layout. Equal models, machines and layouts have equal keys, on any machine.

Hardware facts are declared, not measured, so that a busy machine has the same key.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtune.identity.gpu_facts import GPU_FACTS, Gpus
from ringtune.identity.gradient_set import Signature

TARGET_NAME = "ringtune"
SURFACE_VERSION = 1
"""Raised only when a change of the engine makes old measurements worthless."""

NO_GPUS = Gpus()
_NODE_FOLDER = Path("/sys/devices/system/node")


def model_fingerprint(counts: Mapping[Signature, int]) -> str:
    """Return the SHA-256, in hex, over the sorted list of (dtype, shape, count) of a step's gradients."""
    return _digest(sorted([dtype, list(shape), count] for (dtype, shape), count in counts.items()))


def machine_facts(gpus: Gpus = NO_GPUS, nccl: str | None = None) -> dict[str, Any]:
    """Return this machine's declared facts: CPU model, cores, NUMA nodes and the GPUs that the job trains on.

    A job in CPU memory has the same facts, and thus the same keys, with and without GPUs in the machine.

    Args:
        gpus: Result of `find_gpus` where the job's tensors are on GPUs.
        nccl: Version of the NCCL that carries the data, or None.
    """
    return {
        "cpu_model": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "numa_nodes": max(1, len(list(_NODE_FOLDER.glob("node[0-9]*")))),
        "gpus": [],
        **gpus.facts(nccl),
    }


def hardware_facts(
    machines: Sequence[Mapping[str, Any]], carrier: str, *, is_on_gpus: bool = True
) -> list[dict[str, Any]]:
    """Return the facts of a job's machines, sorted, each with the link that joins its ranks to the others.

    Args:
        machines: Each machine's `machine_facts`, with `link_bits_per_s` as its network interface declares it.
        carrier: Transport of the data: `shm`, `tcp`, `tls` or `mpi`; under PyTorch's DDP its backend.
        is_on_gpus: Whether the job's tensors are on GPUs; otherwise those that the machines declare are left out.
    """
    found = []
    for machine in machines:
        facts = {name: value for name, value in machine.items() if name != "link_bits_per_s"}
        if not is_on_gpus:
            facts = {**{name: value for name, value in facts.items() if name not in GPU_FACTS}, "gpus": []}
        speed = None if carrier == "shm" else machine.get("link_bits_per_s")
        found.append({**facts, "link": {"kind": carrier, "bits_per_s": speed}})
    return sorted(found, key=_canonical)


def hardware_fingerprint(hardware: Sequence[Mapping[str, Any]], override: str | None) -> str:
    """Return the SHA-256, in hex, over the machines' facts.

    Args:
        hardware: Result of `hardware_facts`.
        override: `RINGTUNE_HARDWARE`: hashed in place of the facts.
    """
    return _digest(list(hardware) if override is None else [override])


def layout_of(ranks_per_host: Sequence[int]) -> list[int]:
    """Return the layout: the ranks per host, sorted."""
    return sorted(ranks_per_host)


def study_key(
    counts: Mapping[Signature, int], ranks_per_host: Sequence[int], hardware: str, target: str = TARGET_NAME
) -> dict[str, Any]:
    """Return the key of a study.

    Args:
        counts: The gradients of a step.
        ranks_per_host: Number of ranks on each host.
        hardware: Result of `hardware_fingerprint`.
        target: Name of the engine that is tuned.
    """
    return {
        "hardware": hardware,
        "model": model_fingerprint(counts),
        "layout": layout_of(ranks_per_host),
        "target": target,
        "surface_version": SURFACE_VERSION,
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass  # the machine's architecture says something at least
    return platform.machine()


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
