# SPDX-License-Identifier: Apache-2.0
"""What the engine's operations cost: the constants of the cost model, and their fit to measured allreduces.

An allreduce of m bytes among the ranks of one host is taken to cost a + b m (the Hockney model: Hockney 1994, "The
communication challenge for MPP"); a and b come from a robust fit to measured calls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import MAD_TO_STD

Constant: TypeAlias = float | NDArray[np.float64]
"""One number, or where k sets of constants are asked about at once, an array of shape (k, 1)."""
LEAST_CALL_S = 1e-7
LEAST_BYTE_S = 1e-12
RING_WORK_BYTE_S = 1e-9
"""What a byte costs the one rank of a host that a flat ring's way out leads through: sockets and reduction."""
OUTLIER = 0.1
"""By so much, as ln(time), a call's time may be off before it counts for less."""
UNKNOWN_BYTE_STD = 3.0
"""What is known of a link's seconds per byte, as ln, before anything was sent."""


@dataclass(frozen=True)
class LinkCosts:
    """Of the link that a host has to the others.

    Attributes:
        latency_s: One message of nothing, from a rank to one of another host, seconds.
        byte_s: Seconds per byte and direction.
        byte_std: By how much that may be off, as ln: in a ring of hundreds of ranks latency hides it.
        together: Where all ranks of a host send at once it takes so many times as long: below 1 where a flat ring,
            in which one rank sends, does not fill the link, for that rank's work takes as long.
        message_s: What handing a message to the system, or taking it, costs a core.
        copied_byte_s: What copying a byte of it costs that core, seconds. Between two processes of a machine each side
            takes 5 us for a message of 64 bytes, and 0.2 s for a gigabyte in large ones.
    """

    latency_s: Constant = 60e-6
    byte_s: Constant = 8e-9
    byte_std: float = 0.0
    together: Constant = 1.0
    message_s: Constant = 5e-6
    copied_byte_s: Constant = 0.2e-9


@dataclass(frozen=True)
class EngineCosts:
    """Constants of the cost model.

    Attributes:
        call_s: An allreduce of nothing inside a host, seconds.
        byte_s: Seconds per byte of an allreduce inside a host.
        memory_byte_s: The same, for each of the ranks that move it from and to the host's memory at once, where no
            call inside a host was measured. Four ranks take 22 ms for 52 MiB (benchmarks/README.md).
        cycle_s: Negotiation of one batch inside a host, by the communication thread, seconds.
        tensor_s: A tensor known to the response cache: hook, request, look-up, pack and unpack, seconds.
        uncached_tensor_s: What a tensor costs on top that is negotiated by its name, seconds per rank of the world.
        chunk_s: Synchronization per chunk of a message, seconds.
        wake_s: What a batch takes from a thread that computes and shares its core, seconds. Steps of 8 to 20 ms on two
            shared cores gain so much for every batch less (benchmarks/README.md, "Examples as they are").
        crowded_wait_s: What waiting for another host takes longer where threads that compute share the cores, seconds.
            Two ranks on each of two hosts took 3.5 ms for every tensor that went around a ring of them on its own.
        in_turn: Share of what overlapping would hide that chunks pay which are too large for it: 1 where work, wire and
            waiting follow each other, 0 where systems overlap them all by themselves.
        link: Of the links between hosts.
    """

    call_s: Constant = 10e-6
    byte_s: Constant = 0.2e-9
    memory_byte_s: Constant = 0.1e-9
    cycle_s: Constant = 40e-6
    tensor_s: Constant = 2e-6
    uncached_tensor_s: Constant = 1.5e-6
    chunk_s: Constant = 2e-6
    wake_s: Constant = 50e-6
    crowded_wait_s: Constant = 0.5e-3
    in_turn: Constant = 1.0
    link: LinkCosts = LinkCosts()


@dataclass(frozen=True)
class CallCosts:
    """What an allreduce of m bytes costs: a + b m.

    Attributes:
        call_s: a, seconds.
        byte_s: b, seconds.
        byte_std: Standard deviation of ln(b).
    """

    call_s: float
    byte_s: float
    byte_std: float


def fitted_call_costs(sizes_bytes: Sequence[int], seconds: Sequence[float]) -> CallCosts:
    """Return a and b of a + b m, neither below nothing: those of the least loss of errors of the logarithm.

    The loss is Cauchy's, to which a size counts less that is off: small messages pass a link's bucket at any rate, and
    a machine that begins a job has pauses.

    Args:
        sizes_bytes: Of the measured allreduces.
        seconds: What a call of each took, above zero.

    Raises:
        ValueError: If there are fewer than two sizes, which cannot tell a from b.
    """
    # scipy takes half a second to import: only where something is fitted.
    from scipy.optimize import least_squares  # noqa: PLC0415

    if len(set(sizes_bytes)) < 2:
        raise ValueError(f"two sizes are needed to fit latency and bandwidth, not {len(set(sizes_bytes))}")
    sizes, times = np.asarray(sizes_bytes, dtype=float), np.log(np.asarray(seconds, dtype=float))
    least = np.log([LEAST_CALL_S, LEAST_BYTE_S])
    largest = int(np.argmax(sizes))
    start = np.array([times.min(), times[largest] - np.log(sizes[largest])])

    def residuals(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        expected: NDArray[np.float64] = np.log(np.exp(theta[0]) + np.exp(theta[1]) * sizes)
        off: NDArray[np.float64] = expected - times
        return off

    fit = least_squares(
        residuals, np.maximum(start, least + 1e-9), bounds=(least, np.inf), loss="cauchy", f_scale=OUTLIER
    )
    call_s, byte_s = np.exp(fit.x)
    left_over = MAD_TO_STD * float(np.median(np.abs(residuals(fit.x))))
    noise = max(left_over * math.sqrt(len(sizes) / max(len(sizes) - 2, 1)), OUTLIER)
    return CallCosts(float(call_s), float(byte_s), _byte_std(fit.jac, noise))


def _byte_std(jacobian: NDArray[np.float64], noise: float) -> float:
    """Return the standard deviation of ln(b) of a + b m, from the residuals' derivatives by ln(a) and ln(b)."""
    by_call, by_byte = jacobian.T
    told = float(by_byte @ by_byte - (by_call @ by_byte) ** 2 / (by_call @ by_call))
    return float((max(told, 0.0) / noise**2 + UNKNOWN_BYTE_STD**-2) ** -0.5)


def fitted_costs(
    sizes_bytes: Sequence[int], seconds: Sequence[float], ranks_per_host: Sequence[int], *, is_hierarchical: bool
) -> EngineCosts:
    """Return the constants with those replaced that measured allreduces tell.

    Args:
        sizes_bytes: Of the measured allreduces.
        seconds: What a call of each took, above zero.
        ranks_per_host: Number of ranks on each host that took part.
        is_hierarchical: Whether they reduced inside each host first, and counterparts exchanged; else they went around
            a flat ring. Means nothing on one host.

    Raises:
        ValueError: If there are fewer than two sizes.
    """
    call = fitted_call_costs(sizes_bytes, seconds)
    hosts, ranks = len(ranks_per_host), sum(ranks_per_host)
    if hosts == 1:
        return replace(EngineCosts(), call_s=call.call_s, byte_s=call.byte_s)
    if is_hierarchical:
        byte_s = call.byte_s * hosts / (2 * (hosts - 1))
        return replace(EngineCosts(), link=LinkCosts(call.call_s, byte_s, call.byte_std))
    steps = 2 * (ranks - 1)
    byte_s = call.byte_s * ranks / steps
    together = byte_s / (byte_s + RING_WORK_BYTE_S)
    return replace(EngineCosts(), link=LinkCosts(call.call_s / steps, byte_s, call.byte_std, together))
