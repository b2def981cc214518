# SPDX-License-Identifier: Apache-2.0
"""What the engine's operations cost: the constants of the cost model, and their fit to measured allreduces.

An allreduce of m bytes among the ranks of one host is taken to cost a + b m (the Hockney model: Hockney 1994, "The
communication challenge for MPP"); a and b come from a robust fit to measured calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Constant: TypeAlias = float | NDArray[np.float64]
"""One number, or where k sets of constants are asked about at once, an array of shape (k, 1)."""
LEAST_CALL_S = 1e-7
LEAST_BYTE_S = 1e-12
RING_WORK_BYTE_S = 1e-9
"""What a byte costs the one rank of a host that a flat ring's way out leads through: sockets and reduction."""
OUTLIER = 0.1
"""By so much, as ln(time), a call's time may be off before it counts for less."""


@dataclass(frozen=True)
class LinkCosts:
    """Of the link that a host has to the others.

    Attributes:
        latency_s: One message of nothing, from a rank to one of another host, seconds.
        byte_s: Seconds per byte and direction.
        together: Where all ranks of a host send at once it takes so many times as long: below 1 where a flat ring,
            in which one rank sends, does not fill the link, for that rank's work takes as long.
        message_s: What handing a message to the system, or taking it, costs a core.
        copied_byte_s: What copying a byte of it costs that core, seconds. Between two processes of a machine each side
            takes 5 us for a message of 64 bytes, and 0.2 s for a gigabyte in large ones.
    """

    latency_s: Constant = 60e-6
    byte_s: Constant = 8e-9
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
    link: LinkCosts = LinkCosts()


def fitted_call_costs(sizes_bytes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return a and b of a + b m, neither below nothing: those of the least loss of errors of the logarithm.

    The loss is Cauchy's, to which a size counts less that is off: small messages pass a link's bucket at any rate, and
    a machine that begins a job has pauses.

    Args:
        sizes_bytes: Of the measured allreduces.
        seconds: What a call of each took, above zero.

    Returns:
        Seconds per call, seconds per byte.

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
    return float(call_s), float(byte_s)


def fitted_costs(sizes_bytes: Sequence[int], seconds: Sequence[float], ring_size: int) -> EngineCosts:
    """Return the constants with those replaced that measured allreduces tell.

    Args:
        sizes_bytes: Of the measured allreduces.
        seconds: What a call of each took, above zero.
        ring_size: How many take part in the ring between hosts: all ranks, or one of each host; 1 on one host.

    Raises:
        ValueError: If there are fewer than two sizes.
    """
    call_s, byte_s = fitted_call_costs(sizes_bytes, seconds)
    if ring_size == 1:
        return replace(EngineCosts(), call_s=call_s, byte_s=byte_s)
    steps = 2 * (ring_size - 1)
    ring_byte_s = byte_s * ring_size / steps
    together = ring_byte_s / (ring_byte_s + RING_WORK_BYTE_S)
    return replace(EngineCosts(), link=LinkCosts(call_s / steps, ring_byte_s, together))
