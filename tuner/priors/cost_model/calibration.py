# SPDX-License-Identifier: Apache-2.0
"""Calibration of the cost model: the most probable constants given the measured steps and the job's micro-benchmark.

The micro-benchmark at the start of a job measures one algorithm on an idle machine. Only training steps reveal the
compute time of a step, the bandwidth of a link shared by all ranks of a host, and the contention between threads. The
fit therefore scales groups of constants. Each scale, and the compute time, has a log-normal prior.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.space.config import Config

from .costs import RING_WORK_BYTE_S, EngineCosts
from .job import JobShape
from .step import Traffic

Array = NDArray[np.float64]

SCALE_STDS = (0.5, 0.7, 0.3, 0.3)
"""Prior standard deviations of ln(scale) for (inside, control, latency, link bytes), the first scales of `scaled`.

They are smaller for the groups that the micro-benchmark measured.
"""
MOST_CONTENTION_STD = 1.3
"""Largest prior standard deviation of ln(scale) of the contention: on a fast link, a flat ring hardly measures it."""
UNOVERLAPPED_STD = 1.0
"""Prior standard deviation of ln(scale) of the unoverlapped share, which the micro-benchmark does not measure."""
USUAL_COMPUTE_SHARE = 0.7
"""Prior median of the compute time, as a share of the baseline's step."""
COMPUTE_STD = 2.0
"""Prior standard deviation of ln(compute time): nearly nothing is known before the first step."""
LITTLE_COMPUTE_SHARE = 0.15
"""Compute share of a second start of the fit: with communication longer than backward there is another optimum."""
LEAST_COMPUTE_SHARE = 0.001
"""Lower bound of the compute time in the fit, as a share of the baseline's step."""
MODEL_STD = 0.04
"""Standard deviation of the model error and measurement error at a config, ln(step time)."""
MOST_STDS = 6.0
"""Bound of the fit: largest deviation of a logarithm from its prior, in standard deviations."""
TOLERANCE = 1e-4
"""Relative tolerance of the sum of squares: smaller improvements are far below the noise."""
DIFFERENCE = 1e-6
"""Step of the finite differences, ln(scale)."""
MOST_EVALUATIONS = 40
"""Largest number of evaluations of one fit."""


def scaled(costs: EngineCosts, scales: Array) -> EngineCosts:
    """Return the constants multiplied by scale factors.

    Args:
        costs: The constants.
        scales: Factors of: work inside a host, work per tensor and batch, latency of the links, seconds per byte of
            the links, contention on the links, unoverlapped share; shape (6,), or (6, k, 1) for k sets at once.
    """
    inside, control, latency, link_byte, contention, unoverlapped = scales
    link = replace(
        costs.link,
        latency_s=latency * costs.link.latency_s,
        message_s=latency * costs.link.message_s,
        copied_byte_s=latency * costs.link.copied_byte_s,
        byte_s=link_byte * costs.link.byte_s,
        contention=contention * costs.link.contention,
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
        unoverlapped_share=unoverlapped * costs.unoverlapped_share,
        link=link,
    )


def _scale_stds(costs: EngineCosts) -> Array:
    """Return the prior standard deviations of the logarithms of the scales of `scaled`, shape (6,)."""
    *usual, link_byte_std = SCALE_STDS
    contention_std = MOST_CONTENTION_STD * min(RING_WORK_BYTE_S / float(costs.link.byte_s), 1.0)
    return np.array([*usual, float(np.hypot(link_byte_std, costs.link.byte_std)), contention_std, UNOVERLAPPED_STD])


def sensitivities(job: JobShape, costs: EngineCosts, compute_s: float, configs: Sequence[Config]) -> Array:
    """Return the sensitivity of ln(step time) to the scales of the constants and to the compute time.

    Args:
        job: Shape of the job.
        costs: Calibrated constants.
        compute_s: Compute time of a step, seconds.
        configs: m configs.

    Returns:
        Change of ln(step time) per prior standard deviation of each unknown, shape (m, 7): the secant over one.
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
    """Return the most probable constants and compute time, given measured steps.

    Args:
        job: Shape of the job.
        costs: Prior medians of the constants.
        configs: Measured configs, the baseline first.
        step_s: Step time of each config, seconds.

    Returns:
        The constants, and the compute time of a step, seconds.
    """
    # Importing scipy takes half a second; only a fit needs it.
    from scipy.optimize import least_squares  # noqa: PLC0415

    from ringtune.tuner.gp.blas import ONE_BLAS_THREAD  # noqa: PLC0415  (imports scipy.linalg)

    traffic = Traffic.of(job, configs)
    measured = np.log(np.asarray(step_s, dtype=float))
    usual = float(measured[0]) + np.log(USUAL_COMPUTE_SHARE)
    stds = np.array([*_scale_stds(costs), COMPUTE_STD])

    def residuals_of(thetas: Array) -> Array:
        """Return the residuals of k vectors of logarithms, shape (k, m + 7)."""
        *scales, compute = np.exp(thetas.T)[:, :, None]
        expected = traffic.step_s(scaled(costs, np.array(scales)), np.exp(usual) * compute)
        of_each: Array = np.hstack([(np.log(expected) - measured) / MODEL_STD, thetas / stds])
        return of_each

    def residuals(theta: Array) -> Array:
        (of_one,) = residuals_of(theta[None, :])
        return np.asarray(of_one)

    def jacobian(theta: Array) -> Array:
        """Return the derivatives by finite differences towards the prior, inside the bounds."""
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
