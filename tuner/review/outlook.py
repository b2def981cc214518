# SPDX-License-Identifier: Apache-2.0
"""Outlook: the gain over the best tried config that further launches would probably bring, by the run's model.

The model's joint posterior is drawn `DRAWS` times at the tried configs and at untried candidates. The further launches
are the candidates that improve the draws most, chosen greedily (expected improvement of a batch: Ginsbourger, Le Riche
& Carraro 2010). The gain in a draw is that of its best launch over its best tried config, as in noisy expected
improvement. A config that may fail counts in the share of draws in which it works.

The model promises too much of a space in which few knobs matter: it takes each for as important as any other until
launches show otherwise. The gains are therefore scaled by the share that an earlier promise has kept: the model of the
search's first half expected a gain of the second one, and the whole run knows that gain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.designers import DEFAULT_DESIGNER
from ringtune.tuner.designers.candidates import neighbours, redrawn
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import FAILURES, Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.paired_test import CI_LEVEL

from .analysis import Analysis
from .summary import RunReview
from .surrogate import Surrogate, fit_surrogate

Array = NDArray[np.float64]

LEAST_CONFIGS = 4
"""Least number of measured configs: the model of fewer says little more than its assumptions."""
MOST_LAUNCHES = 50
"""Most further launches that are looked at: farther away the model changes too much."""
DRAWS = 256
RANDOM_CANDIDATES = 600
NEAR_CANDIDATES = 50
"""Number of candidates near each of the best tried configs, of each kind."""
BEST_COUNT = 3


@dataclass(frozen=True)
class Outlook:
    """Estimate of the model.

    Attributes:
        launches: Number of further launches.
        expected: Expected speed-up of their best one over the best tried config, a fraction.
        low: Lower end of the speed-up's two-sided interval at level CI_LEVEL.
        high: Upper end of the interval.
    """

    launches: int
    expected: float
    low: float
    high: float


def outlook(run: RunReview, analysis: Analysis) -> Outlook | None:
    """Return what as many launches again would probably bring, `MOST_LAUNCHES` at most.

    Returns:
        None if the model has too few configs, or if the search was not ringtune's own, whose further choices the
        estimate is about.
    """
    surrogate, levelled = analysis.surrogate, analysis.levelled.run
    is_own = all(thought.designer == DEFAULT_DESIGNER for thought in run.thoughts)
    if surrogate is None or not run.thoughts or not is_own or len(surrogate.configs) < LEAST_CONFIGS:
        return None
    launches = min(max(_searched(levelled), 1), MOST_LAUNCHES)
    gains = np.expm1(_share_kept(levelled, surrogate) * batch_gains(levelled, surrogate, launches))
    low, high = np.quantile(gains, [0.5 - CI_LEVEL / 2, 0.5 + CI_LEVEL / 2])
    return Outlook(launches, float(gains.mean()), float(low), float(high))


def batch_gains(run: RunReview, surrogate: Surrogate, launches: int) -> Array:
    """Return the gain of the best of a number of launches in each draw of the model.

    Args:
        run: The run, levelled.
        surrogate: Its model.
        launches: Number of further launches.

    Returns:
        ln(step time before / after) over the best tried config, at least zero, shape (DRAWS,).
    """
    rng = np.random.default_rng(len(run.tried))
    worked = {sample.config for sample in run.tried if sample.is_evidence}
    failed = list(dict.fromkeys(s.config for s in run.tried if s.reason in FAILURES and s.config not in worked))
    candidates = _untried(surrogate, failed, rng)
    best = np.zeros(DRAWS)
    if not candidates:
        return best
    count = len(surrogate.configs)
    means, covariance = surrogate.posterior([*surrogate.configs, *candidates])
    draws = rng.multivariate_normal(means, covariance, DRAWS, check_valid="ignore", method="eigh")
    gains = np.maximum(draws[:, :count].min(axis=1)[:, None] - draws[:, count:], 0.0)
    gains *= rng.random(gains.shape) < _works(surrogate, failed, candidates)
    for _ in range(min(launches, len(candidates))):
        chosen = int(np.argmax(np.maximum(gains, best[:, None]).mean(axis=0)))
        best = np.maximum(best, gains[:, chosen])
    return best


def _searched(run: RunReview) -> int:
    return sum(sample.phase == Phase.SEARCH for sample in run.tried)


def _share_kept(run: RunReview, surrogate: Surrogate) -> float:
    """Return the share of its expected gain that the model of the search's first half has kept in the second one.

    Args:
        run: The run, levelled.
        surrogate: Model of the whole run, which knows the gain of the second half.

    Returns:
        1 for a search too short to be halved, and at most 1.
    """
    half = _searched(run) // 2
    searched = [position for position, sample in enumerate(run.tried) if sample.phase == Phase.SEARCH]
    first = replace(run, tried=run.tried[: searched[half]] if half else ())
    model = fit_surrogate(first)
    if model is None or len(model.configs) < LEAST_CONFIGS:
        return 1.0
    expected = float(batch_gains(first, model, min(len(searched) - half, MOST_LAUNCHES)).mean())
    gained = min(map(surrogate.log_time, model.configs)) - surrogate.log_time(surrogate.best)
    return min((gained + POLICY.least_gain) / (expected + POLICY.least_gain), 1.0)


def _untried(surrogate: Surrogate, failed: Sequence[Config], rng: np.random.Generator) -> list[Config]:
    """Return untried configs, drawn at random and near the best tried ones; none if everything was tried."""
    space = surrogate.space
    drawn = [space.random(rng) for _ in range(RANDOM_CANDIDATES)]
    best = sorted(surrogate.configs, key=surrogate.log_time)[:BEST_COUNT]
    for config in best:
        drawn += [redrawn(space, config, rng) for _ in range(NEAR_CANDIDATES)]
        drawn += neighbours(space, config, rng, NEAR_CANDIDATES)
    tried = {*surrogate.configs, *failed}
    return [config for config in dict.fromkeys(drawn) if config not in tried]


def _works(surrogate: Surrogate, failed: Sequence[Config], candidates: Sequence[Config]) -> Array:
    """Return the probability that each candidate can be measured."""
    from ringtune.tuner.gp.feasibility import Feasibility  # noqa: PLC0415  (scipy takes half a second to import)

    encode, failed = surrogate.space.encode_all, [config for config in failed if surrogate.space.contains(config)]
    if not failed:
        return np.ones(len(candidates))
    return Feasibility(encode(surrogate.configs), encode(failed)).probability(encode(candidates))
