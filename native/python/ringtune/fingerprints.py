# SPDX-License-Identifier: Apache-2.0
"""The keys of what was learned: model, hardware, layout. Equal things have equal keys, on any machine.

The hardware facts are what a machine declares, not what it measures, so that a busy machine has the same key.
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .gradient_set import Signature

TARGET_NAME = "ringtune"
SURFACE_VERSION = 1
"""Raised only when a change of the engine makes old measurements worthless."""

_NODE_FOLDER = Path("/sys/devices/system/node")


def model_fingerprint(counts: Mapping[Signature, int]) -> str:
    """Return the SHA-256, in hex, over the sorted list of (dtype, shape, count) of a step's gradients."""
    return _digest(sorted([dtype, list(shape), count] for (dtype, shape), count in counts.items()))


def hardware_facts() -> dict[str, Any]:
    """Return this host's declared facts: CPU model, cores, NUMA nodes, GPUs, and the link between ranks."""
    return {
        "cpu_model": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "numa_nodes": max(1, len(list(_NODE_FOLDER.glob("node[0-9]*")))),
        "gpus": [],  # this version's engine works in CPU memory alone
        "link": {"kind": "shm", "bits_per_s": None},
    }


def hardware_fingerprint(override: str | None) -> str:
    """Return the SHA-256, in hex, over the hosts' facts.

    Args:
        override: `RINGTUNE_HARDWARE`: hashed in place of the facts.
    """
    return _digest([hardware_facts()] if override is None else [override])


def layout_of(local_sizes: list[int]) -> list[int]:
    """Return the layout: the ranks per host, sorted."""
    return sorted(local_sizes)


def study_key(counts: Mapping[Signature, int], local_sizes: list[int], hardware: str | None) -> dict[str, Any]:
    """Return the key of a study.

    Args:
        counts: The gradients of a step.
        local_sizes: Ranks per host.
        hardware: `RINGTUNE_HARDWARE`, or None.
    """
    return {
        "hardware": hardware_fingerprint(hardware),
        "model": model_fingerprint(counts),
        "layout": layout_of(local_sizes),
        "target": TARGET_NAME,
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
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
