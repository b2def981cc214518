# SPDX-License-Identifier: Apache-2.0
"""Cells of the zoo: a training job, the way in which it reduces gradients, and the hosts and links under it."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .nets import ZOO

ENGINE, BACKEND, DDP = "engine", "backend", "ddp"
FRONTS = (ENGINE, BACKEND, DDP)
"""Ringtune's optimizer, DDP on the backend "ringtune", and DDP on Gloo, whose buckets `ringtune.ddp` tunes."""
DELAYS_MS = (0.0, 0.5, 5.0, 20.0)
"""Delays of the zoo; without a switch that adds one, a packet takes some 0.03 ms."""
RATES = ("100mbit", "1gbit", "5gbit")
FIRST_NETS = (0, 3, 1, 4)
"""Place in `ZOO` of the net that is the first to meet each delay at the lowest rate: no net has one rate alone."""


@dataclass(frozen=True)
class Cell:
    """A job on hosts of this machine.

    Attributes:
        net: Name of the net, one of `ZOO`.
        front: One of FRONTS.
        delay_ms: Delay from one host to another.
        link: Rate of each host's link.
        hosts: Number of hosts.
        ranks_per_host: Ranks on each.
        slow_share: Rate of the last host's link as a share of the others'.
        lost_share: Share of the packets that are lost.
    """

    net: str
    front: str = ENGINE
    delay_ms: float = 0.0
    link: str = "1gbit"
    hosts: int = 2
    ranks_per_host: int = 1
    slow_share: float = 1.0
    lost_share: float = 0.0

    @property
    def ranks(self) -> int:
        """Number of all ranks."""
        return self.hosts * self.ranks_per_host

    @property
    def name(self) -> str:
        """Name in tables, files and options."""
        layout = "+".join([str(self.ranks_per_host)] * self.hosts)
        name = ", ".join((self.net, self.front, layout, self.link, f"{self.delay_ms:g} ms"))
        slow = f", slow {self.slow_share:g}" if self.slow_share < 1 else ""
        return name + slow + (f", loss {self.lost_share:g}" if self.lost_share > 0 else "")


def zoo() -> Iterator[Cell]:
    """Yield all cells, the most telling ones first: every link, other layouts, other fronts, then the other nets."""
    links = list(itertools.product(DELAYS_MS, RATES))
    names = list(ZOO)
    firsts = (row + column for row in FIRST_NETS for column in range(len(RATES)))
    turns = [names[first % len(names) :] + names[: first % len(names)] for first in firsts]
    for number, ((delay_ms, link), nets) in enumerate(zip(links, turns, strict=True)):
        yield Cell(nets[0], delay_ms=delay_ms, link=link)
        if number % 2:
            yield from _elsewhere(nets[1], number // 2)
    for place in range(1, len(names)):
        for (delay_ms, link), nets in zip(links, turns, strict=True):
            yield Cell(nets[place], delay_ms=delay_ms, link=link)


def _elsewhere(net: str, turn: int) -> Sequence[Cell]:
    """Return cells that differ from the plain ones in more than their link."""
    others = (
        (Cell(net, hosts=3), Cell(net, front=BACKEND, delay_ms=0.5)),
        (Cell(net, hosts=3, slow_share=0.5), Cell(net, front=DDP)),
        (Cell(net, delay_ms=0.5, lost_share=0.001), Cell(net, front=BACKEND)),
        (Cell(net, ranks_per_host=2), Cell(net, front=DDP, delay_ms=5.0)),
        (Cell(net, ranks_per_host=3), Cell(net, front=BACKEND, link="100mbit")),
        (Cell(net, hosts=3, delay_ms=5.0), Cell(net, front=DDP, link="100mbit")),
    )
    return others[turn]
