# SPDX-License-Identifier: Apache-2.0
"""Introductions of the ranks before tuning; they decide whether the model is tuned, and give the study's key."""

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ringtune.identity.fingerprints import hardware_facts, hardware_fingerprint, machine_facts, study_key
from ringtune.identity.gpu_facts import find_gpus
from ringtune.tuning.job.question import JobIdentity
from ringtune.version import __version__

from .live_model import LiveModel


@dataclass(frozen=True)
class Introduction:
    """Facts of one rank.

    Attributes:
        host: Name of its host.
        machine: Facts that the host declares, from `machine_facts`.
        model_digest: Hash of the settings in force and of all that must be equal on the ranks.
        objection: Reason not to tune it, or None.
        memory_limit_bytes: Limit of the memory of each rank, as the user set it; None without one.
    """

    host: str
    machine: Mapping[str, Any]
    model_digest: int
    objection: str | None
    memory_limit_bytes: int | None = None

    @classmethod
    def of(cls, model: LiveModel, objection: str | None) -> "Introduction":
        """Return this rank's introduction; a model with an objection is not looked at."""
        digest = 0 if objection else model.digest(0, model.in_force())
        is_on_gpu = model.device.type == "cuda"
        machine = machine_facts(find_gpus(), nccl_version(model)) if is_on_gpu else machine_facts()
        return cls(platform.node(), machine, digest, objection, model.memory_limit_bytes)

    def to_text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Introduction":
        """Return the introduction that another rank's `to_text` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class Company:
    """Introductions of all ranks, by rank; the same on each of them."""

    ranks: Sequence[Introduction]

    def objection(self, compared: str) -> str | None:
        """Return the reason not to tune these ranks, or None.

        Args:
            compared: Name of the things that must be equal on all ranks.
        """
        for rank, introduction in enumerate(self.ranks):
            if introduction.objection is not None:
                return introduction.objection if rank == 0 else f"rank {rank}: {introduction.objection}"
        differing = [rank for rank, entry in enumerate(self.ranks) if entry.model_digest != self.ranks[0].model_digest]
        if differing:
            return f"{compared} on rank {differing[0]} are not those of rank 0"
        return None

    @property
    def ranks_per_host(self) -> list[int]:
        """The number of ranks on each host."""
        return list(Counter(entry.host for entry in self.ranks).values())

    def ranks_beside(self, rank: int) -> int:
        """Return the number of ranks on a rank's host, itself included."""
        return sum(entry.host == self.ranks[rank].host for entry in self.ranks)

    @property
    def memory_limit_bytes(self) -> int | None:
        """Limit of the memory of each rank, as rank 0 has it; None without one."""
        return self.ranks[0].memory_limit_bytes

    @property
    def leaders(self) -> list[int]:
        """The first rank of each host but rank 0's."""
        first: dict[str, int] = {}
        for rank, entry in enumerate(self.ranks):
            first.setdefault(entry.host, rank)
        return [rank for rank in first.values() if rank != 0]

    def hardware(self, model: LiveModel) -> list[dict[str, Any]]:
        """Return the facts of the ranks' machines; `model` is any rank's."""
        machines = {entry.host: entry.machine for entry in self.ranks}
        return hardware_facts(list(machines.values()), model.backend)

    def identity(self, model: LiveModel, hardware_override: str | None) -> JobIdentity:
        """Return the job's identity.

        Args:
            model: Any rank's.
            hardware_override: Replaces the hardware fingerprint; None keeps it.
        """
        hardware = self.hardware(model)
        fingerprint = hardware_fingerprint(hardware, hardware_override)
        key = study_key(model.gradient_counts(), self.ranks_per_host, fingerprint, model.target_name)
        return JobIdentity(key, self.ranks_per_host, hardware, _versions(model))


def _versions(model: LiveModel) -> dict[str, str]:
    """Return the versions that a log keeps: where a model is on a GPU, the driver's and NCCL's too."""
    gpu = {"nvidia_driver": find_gpus().driver, "nccl": nccl_version(model)} if model.device.type == "cuda" else {}
    known = {name: version for name, version in gpu.items() if version is not None}
    return {"ringtune": __version__, "torch": torch.__version__, **known}


def nccl_version(model: LiveModel) -> str | None:
    """Return the version of the NCCL that carries a model's gradients, or None where something else does."""
    if "nccl" not in model.backend:
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))
