# SPDX-License-Identifier: Apache-2.0
"""Estimate of a step between hosts from the bytes on the busiest link, for more nodes than were measured.

A step is the computing, the time of the wire, and the rest ("own" time: gradient, copies, calls), which is read off a
measurement with few workers and taken as the same for more. The simulator stands for the wire under ringtune.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ringtune.bench.host_links import HostLinks
from ringtune.bench.network import parse_rate
from ringtune.tuner import default_config
from ringtune.tuner.simulator import Cluster, Gradient, Link, SimulatedJob, SimulatedMachine, predicted_step_ms

from .student import CLASSES, PIXELS
from .trial import ASYNC, DDP, RINGTUNE, SYNC, Trial

FLOAT_BYTES = 4
_BACKWARD_MS = 0.001  # the wait comes first: gradients are there together


@dataclass(frozen=True)
class Setting:
    """One cell of the estimate.

    Attributes:
        way: Name of the way in which gradients meet.
        servers: Number of servers.
        workers: Number of workers, each on a host of its own, as are the servers.
        place: Rate of each link.
        compute_ms: Time of the computing in a step, milliseconds.
        width: Features of the model's hidden layers.
    """

    way: str
    servers: int
    workers: int
    place: str
    compute_ms: float = Trial.compute_ms
    width: int = Trial.width

    @property
    def bytes(self) -> int:
        """Size of all parameters."""
        return FLOAT_BYTES * sum(inputs * outputs for inputs, outputs in self.shapes)

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Weights and biases, as the model has them."""
        extents = (PIXELS, self.width, self.width, CLASSES)
        pairs = list(itertools.pairwise(extents))
        return [shape for inputs, outputs in pairs for shape in ((inputs, outputs), (1, outputs))]

    @property
    def transfer_ms(self) -> float:
        """Time in which a link carries all parameters once."""
        return 1e3 * self.bytes / HostLinks(self.workers, self.workers, parse_rate(self.place)).payload_bytes_per_s


def step_ms(setting: Setting, own_ms: float) -> float:
    """Return the estimated time of a worker's step, milliseconds.

    Args:
        setting: The cell.
        own_ms: Time of a step that is neither the wait nor the wire.
    """
    if setting.way == SYNC:
        # All gradients arrive before the first answer leaves: the two directions of a link do not overlap.
        return setting.compute_ms + own_ms + 2 * max(1.0, setting.workers / setting.servers) * setting.transfer_ms
    if setting.way == ASYNC:
        # Workers take turns: both directions of the server's link are full, or no worker waits for another.
        alone_ms = setting.compute_ms + own_ms + 2 * setting.transfer_ms
        return max(alone_ms, setting.workers / setting.servers * setting.transfer_ms)
    if setting.way == DDP:
        links = HostLinks(setting.workers, setting.workers, parse_rate(setting.place))
        return setting.compute_ms + own_ms + links.ring_us(setting.bytes) / 1e3
    if setting.way == RINGTUNE:
        return simulated_ms(setting) + own_ms
    raise ValueError(f"there is no estimate for {setting.way!r}; there are {SYNC}, {ASYNC}, {DDP} and {RINGTUNE}")


def lockstep_ms(setting: Setting, own_ms: float) -> float:
    """Return the step of asynchronous workers that send together and receive together: a synchronous server's.

    A link shares its rate evenly among its connections, so workers that begin together also end together.
    """
    return step_ms(replace(setting, way=SYNC), own_ms)


def simulated_ms(setting: Setting) -> float:
    """Return the simulator's step of the engine under its defaults, with one worker on each host."""
    gradients = [Gradient(f"tensor{number}", shape) for number, shape in enumerate(reversed(setting.shapes))]
    job = SimulatedJob("digits", tuple(gradients), setting.compute_ms, _BACKWARD_MS, home_bytes=None)
    cluster = Cluster(setting.workers, 1, 1, Link(parse_rate(setting.place) / 8))
    return predicted_step_ms(SimulatedMachine(), cluster, job, default_config())


def own_ms(setting: Setting, measured_ms: float) -> float:
    """Return the own time that makes the estimate of a setting equal to its measurement."""
    return measured_ms - step_ms(setting, 0.0)
