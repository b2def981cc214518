# SPDX-License-Identifier: Apache-2.0
"""Cost constants of the engine's operations, and their fit to measured allreduces.

An allreduce of m bytes among the ranks of one host costs a + b m (the Hockney model: Hockney 1994, "The communication
challenge for MPP"). A robust fit to measured calls yields a and b.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import MAD_TO_STD

Constant: TypeAlias = float | NDArray[np.float64]
"""A number, or an array of shape (k, 1) for k sets of constants at once."""
LEAST_CALL_S = 1e-7
"""Lower bound of a, the latency of a call, seconds."""
LEAST_BYTE_S = 1e-12
"""Lower bound of b, seconds per byte."""
RING_WORK_BYTE_S = 1e-9
"""Seconds per byte of the one rank of a host that sends in a flat ring: socket and reduction work."""
OUTLIER = 0.1
"""Scale of the robust loss, ln(time): a call that deviates by more counts for less."""
UNKNOWN_BYTE_STD = 3.0
"""Prior standard deviation of ln(seconds per byte) of a link, before the first measurement."""


@dataclass(frozen=True)
class LinkCosts:
    """Cost constants of the link between a host and the others.

    Attributes:
        latency_s: Latency of an empty message from a rank to one of another host, seconds.
        byte_s: Seconds per byte and direction.
        byte_std: Standard deviation of ln(`byte_s`); large in a ring of hundreds of ranks, where latency dominates.
        contention: Factor on `byte_s` while all ranks of a host send at once. It is below 1 if a flat ring, in which
            one rank sends, does not fill the link because of that rank's own work.
        message_s: Processor time to send or receive one message, seconds. Between two processes of a machine each side
            takes 5 us for a message of 64 bytes.
        copied_byte_s: Processor time to copy one byte of a message, seconds. Between two processes of a machine each
            side takes 0.2 s for a gigabyte in large messages.
    """

    latency_s: Constant = 60e-6
    byte_s: Constant = 8e-9
    byte_std: float = 0.0
    contention: Constant = 1.0
    message_s: Constant = 5e-6
    copied_byte_s: Constant = 0.2e-9


@dataclass(frozen=True)
class EngineCosts:
    """Constants of the cost model.

    Attributes:
        call_s: Latency of an empty allreduce inside a host, seconds.
        byte_s: Seconds per byte of an allreduce inside a host.
        memory_byte_s: Seconds per byte and rank while all ranks of a host access its memory; a lower bound of the
            cost inside a host in a hierarchical allreduce. Four ranks take 22 ms for 52 MiB.
        cycle_s: Negotiation of one batch inside a host, by the communication thread, seconds.
        tensor_s: Cost of a tensor known to the response cache, seconds: hook, request, look-up, pack and unpack.
        uncached_tensor_s: Extra cost of a tensor that is negotiated by its name, seconds per rank of the world.
        chunk_s: Synchronization per chunk of a message, seconds.
        wake_s: Time that a batch takes from a computing thread on the same core, seconds. Steps of 8 to 20 ms on two
            shared cores gain as much per batch saved (benchmarks/README.md, "Examples as they are").
        crowded_wait_s: Extra wait for another host while computing threads share the cores, seconds. Two ranks on each
            of two hosts took 3.5 ms for every tensor that went around their ring on its own.
        unoverlapped_share: Share of the hideable time that chunks pay if they are too large to overlap: 1 if work,
            wire and waiting are sequential, 0 if the systems overlap them on their own.
        link: Constants of the links between hosts.
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
    unoverlapped_share: Constant = 1.0
    link: LinkCosts = LinkCosts()


@dataclass(frozen=True)
class CallCosts:
    """Fitted cost of an allreduce of m bytes: a + b m.

    Attributes:
        call_s: a, seconds.
        byte_s: b, seconds.
        byte_std: Standard deviation of ln(b).
    """

    call_s: float
    byte_s: float
    byte_std: float


def fitted_call_costs(sizes_bytes: Sequence[int], seconds: Sequence[float]) -> CallCosts:
    """Return the fit of a + b m to measured calls, with positive a and b and errors in ln(time).

    The Cauchy loss reduces the weight of outliers: small messages pass the token bucket of a shaped link unhindered,
    and a machine has pauses while a job starts.

    Args:
        sizes_bytes: Sizes of the measured allreduces.
        seconds: Duration of a call of each size, above zero.

    Raises:
        ValueError: If there are fewer than two distinct sizes, which cannot separate a from b.
    """
    # Importing scipy takes half a second; only a fit needs it.
    from scipy.optimize import least_squares  # noqa: PLC0415

    if len(set(sizes_bytes)) < 2:
        raise ValueError(f"two sizes are needed to fit latency and bandwidth; got {len(set(sizes_bytes))}")
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
    scatter = MAD_TO_STD * float(np.median(np.abs(residuals(fit.x))))
    noise = max(scatter * math.sqrt(len(sizes) / max(len(sizes) - 2, 1)), OUTLIER)
    return CallCosts(float(call_s), float(byte_s), _byte_std(fit.jac, noise))


def _byte_std(jacobian: NDArray[np.float64], noise: float) -> float:
    """Return the standard deviation of ln(b) from the Jacobian of the residuals by ln(a) and ln(b)."""
    by_call, by_byte = jacobian.T
    information = float(by_byte @ by_byte - (by_call @ by_byte) ** 2 / (by_call @ by_call))
    return float((max(information, 0.0) / noise**2 + UNKNOWN_BYTE_STD**-2) ** -0.5)


def fitted_costs(
    sizes_bytes: Sequence[int], seconds: Sequence[float], ranks_per_host: Sequence[int], *, is_hierarchical: bool
) -> EngineCosts:
    """Return the default constants, with those replaced that the measured allreduces determine.

    Args:
        sizes_bytes: Sizes of the measured allreduces.
        seconds: Duration of a call of each size, above zero.
        ranks_per_host: Number of participating ranks on each host.
        is_hierarchical: Whether the calls reduced inside each host and exchanged between counterparts, instead of
            around a flat ring. Has no meaning on one host.

    Raises:
        ValueError: If there are fewer than two distinct sizes.
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
    contention = byte_s / (byte_s + RING_WORK_BYTE_S)
    return replace(EngineCosts(), link=LinkCosts(call.call_s / steps, byte_s, call.byte_std, contention))
