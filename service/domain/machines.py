# SPDX-License-Identifier: Apache-2.0
"""Machines as people know them: CPU, cores, hosts, their network. Their facts are those behind the fingerprint."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.service.errors import InvalidRequest
from ringtune.system.counts import counted

MAX_KINDS = 64
MAX_TEXT = 200
MAX_COUNT = 1_000_000
MAX_LINK_BITS_PER_S = 10**15
MAX_SHOWN_KINDS = 3
NOISE = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|@.*$|\b\d+-Core\b", re.IGNORECASE)
"""Words of a CPU's name without meaning to people; the number of cores is a fact of its own."""
SHARED_MEMORY = "shm"


@dataclass(frozen=True)
class MachineKind:
    """Some hosts that are alike, as they declare themselves.

    Attributes:
        hosts: Number of hosts.
        cpu_model: The operating system's name of it.
        cores: Cores of each host.
        numa_nodes: NUMA nodes of each host.
        gpus: Names of the GPUs of each host.
        link_kind: Carrier of gradients between ranks: `shm`, `tcp`, `mpi`, or another library's name; None if it is not
            known.
        link_bits_per_s: Rate that the network interface declares, or None.
    """

    hosts: int
    cpu_model: str
    cores: int
    numa_nodes: int = 1
    gpus: tuple[str, ...] = ()
    link_kind: str | None = None
    link_bits_per_s: int | None = None

    def check(self) -> None:
        """Raise InvalidRequest for facts that cannot be."""
        counts = {"hosts": self.hosts, "cores": self.cores, "numa_nodes": self.numa_nodes}
        for name, count in counts.items():
            if not 1 <= count <= MAX_COUNT:
                raise InvalidRequest(f"a machine's {name}={count} is no count: 1 to {MAX_COUNT}")
        for text in (self.cpu_model, *self.gpus, self.link_kind or "-"):
            if not 1 <= len(text) <= MAX_TEXT or not text.isprintable():
                raise InvalidRequest(f"{text[:100]!r} is no name: 1 to {MAX_TEXT} printable characters")
        if not 0 <= (self.link_bits_per_s or 0) <= MAX_LINK_BITS_PER_S:
            raise InvalidRequest(f"link_bits_per_s={self.link_bits_per_s} is no speed: up to {MAX_LINK_BITS_PER_S}")


def described(machines: Sequence[MachineKind]) -> str:
    """Return the machines in words: "AMD EPYC 7B13, 64 cores, 4 hosts, tcp 25 Gbit/s"; empty for none."""
    kinds = [_kind(machine) for machine in machines[:MAX_SHOWN_KINDS]]
    return " + ".join([*kinds, *(["…"] if len(machines) > MAX_SHOWN_KINDS else [])])


def _kind(machine: MachineKind) -> str:
    cpu = " ".join(NOISE.sub(" ", machine.cpu_model).split()) or machine.cpu_model
    parts = [cpu, counted(machine.cores, "core"), counted(machine.hosts, "host")]
    names = dict.fromkeys(machine.gpus)
    parts += [f"{machine.gpus.count(name)} of {name}" for name in names]
    if machine.link_kind not in {None, SHARED_MEMORY}:
        speed = f" {machine.link_bits_per_s / 1e9:g} Gbit/s" if machine.link_bits_per_s else ""
        parts.append(f"{machine.link_kind}{speed}")
    return ", ".join(parts)
