# SPDX-License-Identifier: Apache-2.0
"""Horovod's scheme is restated faithfully: the order of its search, its restarts, its rule for the best."""

import numpy as np
import pytest

from benchmarks.tuner.regret.rivals.horovod import FIXED_POINTS, MEGABYTE, SAMPLES_PER_COMBINATION, HorovodDesigner
from benchmarks.tuner.regret.rivals.horovod_model import HorovodModel
from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.sample import Trial
from ringtune.tuner.testing import engine_like_surface, measured_trial
from tests.unit.benchmarks.tuner.regret.rivals.asking import asked

SPACE = search_space({}, default_config(), tuned=("fusion_bytes", "cycle_ms", "response_cache"))


def searched(rounds: int) -> list[Config]:
    """Return the suggestions after the baseline."""
    return asked(HorovodDesigner(SPACE, 0), rounds, engine_like_surface, [default_config()])


def test_each_combination_of_switches_is_searched_anew_from_the_same_points() -> None:
    """The cache is off at first, against the default; with the cache on, the search begins without earlier samples."""
    suggested = searched(2 * SAMPLES_PER_COMBINATION)

    switches = [config["response_cache"] for config in suggested]
    assert [False] * SAMPLES_PER_COMBINATION + [True] * SAMPLES_PER_COMBINATION == switches
    for start in (0, SAMPLES_PER_COMBINATION):
        points = [(config["fusion_bytes"], config["cycle_ms"]) for config in suggested[start : start + 4]]
        assert [(megabytes * MEGABYTE, ms) for megabytes, ms in FIXED_POINTS] == points


def test_its_box_is_horovods() -> None:
    """At most 64 MB, at least 1 ms; whatever its own space would allow."""
    suggested = searched(SAMPLES_PER_COMBINATION)

    assert max(float(config["fusion_bytes"]) for config in suggested) <= 64 * MEGABYTE
    assert min(float(config["cycle_ms"]) for config in suggested) >= 1.0


def test_at_the_end_the_luckiest_sample_wins() -> None:
    """No mean, no model: the config with the best single sample, here one lucky one out of three."""
    lucky, steady = default_config().replace({"cycle_ms": 2.0}), default_config().replace({"cycle_ms": 3.0})
    trials: list[Trial] = [
        measured_trial(0, default_config(), [20.0]),
        measured_trial(1, lucky, [25.0, 12.0, 25.0] * SAMPLES_PER_COMBINATION),
        measured_trial(2, steady, [15.0, 15.0, 15.0]),
    ]
    designer = HorovodDesigner(SPACE, 0)

    designer.update(trials)

    assert lucky == designer.suggest().config
    assert int(np.argmin(designer.predict([trial.config for trial in trials]).mean_log_step_ms)) == 1


def test_its_model_leans_towards_what_scored_well_nearby() -> None:
    """Predictions lean towards points closer than the length scale."""
    x = np.array([[4.0, 5.0], [4.5, 5.2], [30.0, 50.0], [30.5, 50.1], [29.8, 49.7]])
    model = HorovodModel(x, np.array([1.0, 1.1, 5.0, 5.2, 5.1]))

    mean, std = model.predict(np.array([[4.2, 5.1], [30.2, 50.0], [16.0, 90.0]]))

    assert mean[0] < mean[2] < mean[1]
    assert np.all(std > 0)


def test_equal_scores_are_no_error() -> None:
    """Horovod divides by zero there."""
    model = HorovodModel(np.array([[1.0], [2.0], [3.0], [4.0]]), np.ones(4))

    assert np.all(np.isfinite(model.predict(np.array([[2.5]]))[0]))
    assert 0.0 <= model.most_promising([(0.0, 64.0)], np.random.default_rng(0))[0] <= 64.0


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("bytes_per_s", [1e-6, 1e8, 1.4e8, 4e13, 1e15])
def test_equal_scores_of_any_size_are_no_error(bytes_per_s: float, count: int) -> None:
    """Two are taken raw: the amplitude grows to the scores, beside which the noise is lost to rounding."""
    x = np.array([[4.0, 5.0], [4.0, 5.0], [1.0, 10.0], [8.0, 5.0], [8.0, 5.0], [7.5, 5.0], [8.5, 5.0], [8.0, 5.5]])

    mean, std = HorovodModel(x[:count], np.full(count, bytes_per_s)).predict(x)

    assert np.all(np.isfinite(mean))
    assert np.all(np.isfinite(std))
