# SPDX-License-Identifier: Apache-2.0
"""The constants that explain the steps measured so far, and are near what the job's start told of them.

A micro-benchmark sees one algorithm on an idle machine. What a step computes, what all ranks of a host get out of their
link together, and what threads take from each other only steps can tell. So constants are scaled in a few groups, each
with a log-normal prior, and the most probable scales and computing are taken.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.gp.blas import ONE_BLAS_THREAD
from ringtune.tuner.space.config import Config

from .costs import RING_WORK_BYTE_S, EngineCosts
from .job import JobShape
from .step import Traffic

Array = NDArray[np.float64]

SCALE_STDS = (0.5, 0.7, 0.3, 0.3)
"""Of the logarithms of the first that `scaled` takes: what was measured at the start is surer than the rest."""
MOST_TOGETHER_STD = 1.3
"""Of the fifth: where the links are so fast that a flat ring's time says little of theirs."""
IN_TURN_STD = 1.0
"""Of the last: systems carry part of a transfer on while ranks work, and the start has measured nothing of it."""
USUAL_COMPUTE_SHARE = 0.7
COMPUTE_STD = 2.0
"""Of a step, how much is computing, and how far that may be off, as ln: nearly nothing is known of it."""
LITTLE_COMPUTE_SHARE = 0.15
"""A second start of the fit: where communication takes longer than backward, other constants explain the same steps."""
LEAST_COMPUTE_SHARE = 0.001
MODEL_STD = 0.04
"""By how much the best constants are off at a config, and measurements with them, as ln(step time)."""
MOST_STDS = 6.0
"""So far from what is known beforehand constants are looked for."""
TOLERANCE = 1e-4
"""Of the sum of squares, relative: what is gained below it is far below the noise."""
DIFFERENCE = 1e-6
"""Of the logarithm of a factor, for derivatives."""
MOST_EVALUATIONS = 40


def scaled(costs: EngineCosts, scales: Array) -> EngineCosts:
    """Return the constants times factors.

    Args:
        costs: The constants.
        scales: Of work inside a host, of work per tensor and batch, of the links' latency, of their seconds per
            byte, of those where all ranks of a host send at once, and of what chunks cost for going on in turn;
            shape (6,), or of k sets at once (6, k, 1).
    """
    inside, control, latency, alone, together, in_turn = scales
    link = replace(
        costs.link,
        latency_s=latency * costs.link.latency_s,
        message_s=latency * costs.link.message_s,
        copied_byte_s=latency * costs.link.copied_byte_s,
        byte_s=alone * costs.link.byte_s,
        together=together * costs.link.together,
    )
    return replace(
        costs,
        call_s=inside * costs.call_s,
        byte_s=inside * costs.byte_s,
        memory_byte_s=inside * costs.memory_byte_s,
        chunk_s=inside * costs.chunk_s,
        cycle_s=control * costs.cycle_s,
        tensor_s=control * costs.tensor_s,
        uncached_tensor_s=control * costs.uncached_tensor_s,
        wake_s=control * costs.wake_s,
        crowded_wait_s=control * costs.crowded_wait_s,
        in_turn=in_turn * costs.in_turn,
        link=link,
    )


def _scale_stds(costs: EngineCosts) -> Array:
    """Return those of the logarithms of what `scaled` takes, shape (6,)."""
    *usual, link_byte_std = SCALE_STDS
    together_std = MOST_TOGETHER_STD * min(RING_WORK_BYTE_S / float(costs.link.byte_s), 1.0)
    return np.array([*usual, float(np.hypot(link_byte_std, costs.link.byte_std)), together_std, IN_TURN_STD])


def sensitivities(job: JobShape, costs: EngineCosts, compute_s: float, configs: Sequence[Config]) -> Array:
    """Return how ln(step time) depends on the constants' scales and on the computing.

    Args:
        job: What is reduced, and where.
        costs: The constants, calibrated.
        compute_s: What a step computes, seconds.
        configs: m configs.

    Returns:
        By how much it is higher per standard deviation of what was known beforehand, shape (m, 7): the secant over one.
    """
    traffic = Traffic.of(job, configs)
    half = np.diag([*_scale_stds(costs), COMPUTE_STD]) / 2

    def log_step_s(thetas: Array) -> Array:
        *scales, compute = np.exp(thetas.T)[:, :, None]
        logs: Array = np.log(traffic.step_s(scaled(costs, np.array(scales)), compute_s * compute))
        return logs

    of_each: Array = (log_step_s(half) - log_step_s(-half)).T
    return of_each


def calibrated(
    job: JobShape, costs: EngineCosts, configs: Sequence[Config], step_s: Sequence[float]
) -> tuple[EngineCosts, float]:
    """Return the most probable constants and computing, given measured steps.

    Args:
        job: What is reduced, and where.
        costs: What is known of the constants beforehand.
        configs: Those measured, the baseline first.
        step_s: What steps under each took, seconds.

    Returns:
        The constants, and the seconds that a step computes.
    """
    # scipy takes half a second to import: only where something is fitted.
    from scipy.optimize import least_squares  # noqa: PLC0415

    traffic = Traffic.of(job, configs)
    measured = np.log(np.asarray(step_s, dtype=float))
    usual = float(measured[0]) + np.log(USUAL_COMPUTE_SHARE)
    stds = np.array([*_scale_stds(costs), COMPUTE_STD])

    def residuals_of(thetas: Array) -> Array:
        """Return the residuals of k vectors, shape (k, m + 7)."""
        *scales, compute = np.exp(thetas.T)[:, :, None]
        expected = traffic.step_s(scaled(costs, np.array(scales)), np.exp(usual) * compute)
        of_each: Array = np.hstack([(np.log(expected) - measured) / MODEL_STD, thetas / stds])
        return of_each

    def residuals(theta: Array) -> Array:
        (of_one,) = residuals_of(theta[None, :])
        return np.asarray(of_one)

    def jacobian(theta: Array) -> Array:
        """Return the derivatives by differences, all at once, away from the bounds."""
        forth = np.where(theta < 0.0, DIFFERENCE, -DIFFERENCE)
        values = residuals_of(np.vstack([theta, theta + np.diag(forth)]))
        derivatives: Array = ((values[1:] - values[0]) / forth[:, None]).T
        return derivatives

    reach = MOST_STDS * stds
    low = np.array([*-reach[:-1], np.log(LEAST_COMPUTE_SHARE / USUAL_COMPUTE_SHARE)])
    high = np.array([*reach[:-1], -np.log(USUAL_COMPUTE_SHARE)])
    with ONE_BLAS_THREAD.held():
        fits = [
            least_squares(
                residuals,
                np.array([*np.zeros(len(stds) - 1), np.log(share / USUAL_COMPUTE_SHARE)]),
                jacobian,
                (low, high),
                loss="soft_l1",
                ftol=TOLERANCE,
                max_nfev=MOST_EVALUATIONS,
            )
            for share in (USUAL_COMPUTE_SHARE, LITTLE_COMPUTE_SHARE)
        ]
    fit = min(fits, key=lambda fit: fit.cost)
    return scaled(costs, np.exp(fit.x[:-1])), float(np.exp(usual + fit.x[-1]))
