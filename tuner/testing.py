# SPDX-License-Identifier: Apache-2.0
"""Test support, also for third-party designers: a synthetic target with a known surface, and conformance suites.

To check a designer, subclass `DesignerConformance` as `Test...` and override `make_designer`. To check a wrapper around
another designer, subclass `WrapperConformance` and override `wrap`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .cutting import steps_until_cut
from .designers import (
    DEFAULT_DESIGNER,
    Designer,
    DesignerWrapper,
    JointDesigner,
    Suggestion,
    WarmStartedDesigner,
    make_designer,
)
from .sample import Phase, Sample, StepTimes, Trial, VoidReason, Window
from .space.config import Config
from .space.parameters import AUTO, KIB, MIB, default_config, search_space
from .space.search_space import SearchSpace
from .targets import TargetClosed, WindowSpec

Surface = Callable[[Config], float]
"""Noise-free ln(step time in ms) of a config."""

POOR = {"fusion_bytes": 0, "cycle_ms": 20.0}
"""Parameters of a baseline so slow that any tuner must improve on it."""
GRADIENT_BYTES = 8 * MIB
TENSOR_SET = 0x5EED


def poor_baseline() -> Config:
    """Return a baseline config that is far slower than the best."""
    return default_config().replace(POOR)


def engine_like_surface(config: Config) -> float:
    """Return ln(step time in ms) of a synthetic job of about 20 ms a step, shaped like measured jobs.

    Without fusion every tensor pays the cost of a message. Buffers beyond the best size lose a little. A long cycle
    delays the step. The response cache saves a fixed share. Chunks have a shallow optimum near 256 KiB.
    """
    fusion, chunk = float(config["fusion_bytes"]), config["chunk_bytes"]
    y = math.log(20.0)
    y += 0.6 if fusion == 0 else 0.008 * math.log2(fusion / (8 * MIB)) ** 2
    y += 0.05 * math.pow(max(math.log2(float(config["cycle_ms"]) / 2.0), 0.0), 1.5)
    y += 0.0 if config["response_cache"] else 0.06
    y += 0.02 if chunk == AUTO else 0.01 * math.log2(float(chunk) / (256 * KIB)) ** 2
    return y


def flat_surface(config: Config) -> float:
    """Return the same ln(step time in ms) for every config."""
    del config
    return math.log(20.0)


def coarse_grid(space: SearchSpace, points: int = 5) -> list[Config]:
    """Return every combination of `points` quantiles per free parameter."""
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, points)] * len(space.free))
    quantiles = np.stack([axis.ravel() for axis in axes], axis=1)
    return list(dict.fromkeys(space.at_quantiles(row) for row in quantiles))


@dataclass(frozen=True)
class Disturbances:
    """Noise and faults of a synthetic target.

    Attributes:
        step_noise: Standard deviation of ln(step time) between steps.
        window_noise: Standard deviation of ln(step time) between windows, which longer windows do not reduce.
        void: Probability per window of each reason; `invalid_score` gives a NaN step time and zero bytes.
        closes_after_windows: Number of windows after which the job is over; None for never.
    """

    step_noise: float = 0.04
    window_noise: float = 0.005
    void: dict[VoidReason, float] = field(default_factory=dict)
    closes_after_windows: int | None = None


class SyntheticTarget:
    """Target with computed step times: instant, seeded, on a simulated clock.

    Attributes:
        applied: Every config asked for, in order.
        now_s: Simulated time, seconds.
    """

    name = "synthetic"

    def __init__(
        self,
        *,
        surface: Surface = engine_like_surface,
        baseline: Config | None = None,
        disturbances: Disturbances | None = None,
        space: SearchSpace | None = None,
        seed: int = 0,
    ) -> None:
        """Create a job; the defaults are the engine's space and default config, and the engine-like surface."""
        self._surface = surface
        self._baseline = default_config() if baseline is None else baseline
        self._disturbances = Disturbances() if disturbances is None else disturbances
        self._space = search_space({}, self._baseline) if space is None else space
        self._rng = np.random.default_rng(seed)
        self._windows = 0
        self.applied: list[Config] = []
        self.now_s = 0.0

    def clock(self) -> float:
        """Return the simulated time in seconds."""
        return self.now_s

    def space(self) -> SearchSpace:
        """Return the legal configs."""
        return self._space

    def baseline(self) -> Config:
        """Return the config the job would run without tuning."""
        return self._baseline

    def apply(self, config: Config) -> int:
        """Switch at once; the epoch is the number of switches so far."""
        self.applied.append(config)
        return len(self.applied)

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows of noisy step times; raise TargetClosed once the job is over."""
        while True:
            limit = self._disturbances.closes_after_windows
            if limit is not None and self._windows >= limit:
                raise TargetClosed("the synthetic job is over")
            self._windows += 1
            yield self._window(spec)

    def true_speedup(self, config: Config) -> float:
        """Return the noise-free speed-up of `config` over the baseline, as a fraction."""
        return math.expm1(self._surface(self._baseline) - self._surface(config))

    def _window(self, spec: WindowSpec) -> Window:
        noise = self._disturbances
        mean = self._surface(self.applied[-1]) + self._rng.normal(0.0, noise.window_noise)
        step_ms = np.exp(mean + self._rng.normal(0.0, noise.step_noise, spec.steps))
        step_ms = step_ms[: steps_until_cut(step_ms.tolist(), spec.limit_ms)]
        was_cut = len(step_ms) < spec.steps
        self.now_s += float(step_ms.sum()) * 1e-3
        reason, size = self._void_reason(), GRADIENT_BYTES
        if reason is VoidReason.INVALID_SCORE:
            step_ms[0], reason, size = math.nan, None, 0
        return Window(spec.epoch, tuple(step_ms.tolist()), size, TENSOR_SET, reason, was_cut)

    def _void_reason(self) -> VoidReason | None:
        draw = self._rng.random()
        for reason, chance in self._disturbances.void.items():
            if draw < chance:
                return reason
            draw -= chance
        return None


def measured_trial(trial_id: int, config: Config, step_ms: Sequence[float]) -> Trial:
    """Return a trial with one valid sample per median step time."""
    samples = []
    for median_ms in step_ms:
        score = GRADIENT_BYTES / (median_ms * 1e-3)
        times = StepTimes(median_ms, 0.01 * median_ms, median_ms)
        samples.append(Sample(trial_id, config, Phase.SEARCH, trial_id, score, times, 20))
    return Trial(trial_id, config, tuple(samples))


def failed_trial(trial_id: int, config: Config) -> Trial:
    """Return a trial of a config that cannot be measured, as a launch that failed."""
    times, reason = StepTimes.of(()), VoidReason.LAUNCH_FAILED
    return Trial(trial_id, config, (Sample(trial_id, config, Phase.SEARCH, trial_id, math.nan, times, 0, reason),))


class DesignerConformance:
    """Conformance suite of designers: the behaviour required of every model. Subclass, and override `make_designer`."""

    ROUNDS = 12

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a new instance of the designer under test."""
        raise NotImplementedError

    def converse(self, designer: Designer, rounds: int, surface: Surface = engine_like_surface) -> list[Trial]:
        """Ask `rounds` times, answering each suggestion with a noise-free sample; return all trials."""
        trials = [measured_trial(0, default_config(), [math.exp(surface(default_config()))] * 3)]
        for trial_id in range(1, rounds + 1):
            designer.update(trials)
            config = designer.suggest().config
            trials.append(measured_trial(trial_id, config, [math.exp(surface(config))]))
        return trials

    def test_has_a_name(self) -> None:
        """The designer has a non-empty name, which the log records."""
        designer = self.make_designer(_engine_space(), 0)

        assert isinstance(designer.name, str)
        assert designer.name

    def test_suggests_only_legal_configs(self) -> None:
        """The search space accepts every suggestion."""
        space = _engine_space()

        trials = self.converse(self.make_designer(space, 1), self.ROUNDS)

        assert [trial.config for trial in trials if not space.contains(trial.config)] == []

    def test_respects_fixed_values(self) -> None:
        """A fixed parameter keeps its value in every suggestion."""
        space = search_space({"fusion_bytes": 2 * MIB}, default_config().replace({"fusion_bytes": 2 * MIB}))

        trials = self.converse(self.make_designer(space, 2), 4)[1:]

        assert {2 * MIB} == {trial.config["fusion_bytes"] for trial in trials}

    def test_same_seed_same_suggestions(self) -> None:
        """Two designers with the same seed and the same trials make the same suggestions."""
        first = self.converse(self.make_designer(_engine_space(), 3), 8)
        second = self.converse(self.make_designer(_engine_space(), 3), 8)

        assert [trial.config for trial in first] == [trial.config for trial in second]

    def test_does_not_repeat_itself(self) -> None:
        """In the engine's space the suggestions are distinct, and none is the baseline."""
        trials = self.converse(self.make_designer(_engine_space(), 4), self.ROUNDS)

        assert len({trial.config for trial in trials}) == self.ROUNDS + 1

    def test_suggests_without_any_trial(self) -> None:
        """Before the first trial the designer makes a legal suggestion without an expected score."""
        space = _engine_space()
        designer = self.make_designer(space, 5)

        designer.update([])
        suggestion = designer.suggest()

        assert isinstance(suggestion, Suggestion)
        assert space.contains(suggestion.config)
        assert suggestion.expected_score is None

    def test_survives_a_space_that_runs_out(self) -> None:
        """The designer still suggests legal configs after more rounds than there are configs."""
        tuned = ("response_cache",)
        space = search_space({}, default_config(), tuned=tuned)

        trials = self.converse(self.make_designer(space, 6), 8)

        assert all(space.contains(trial.config) for trial in trials)

    def test_survives_equal_step_times(self) -> None:
        """Predictions on a constant surface are finite."""
        designer = self.make_designer(_engine_space(), 7)
        trials = self.converse(designer, 8, flat_surface)

        designer.update(trials)
        prediction = designer.predict([trial.config for trial in trials])

        assert np.allclose(math.log(20.0), prediction.mean_log_step_ms, atol=1e-3)
        assert np.all(np.isfinite(prediction.std))

    def test_ignores_inconclusive_trials(self) -> None:
        """A trial without a valid window changes no prediction for other configs."""
        space = _engine_space()
        config = space.random(np.random.default_rng(8))
        trials = [measured_trial(0, default_config(), [20.0, 20.2, 19.9]), measured_trial(1, config, [30.0])]
        void = Sample(2, poor_baseline(), Phase.SEARCH, 9, math.nan, StepTimes.of(()), 0, VoidReason.PAUSE)
        designer = self.make_designer(space, 8)

        designer.update(trials)
        without = designer.predict([default_config(), config]).mean_log_step_ms
        designer.update([*trials, Trial(2, poor_baseline(), (void,))])
        prediction = designer.predict([default_config(), config]).mean_log_step_ms

        assert np.allclose(without, prediction)

    def test_predicts_better_configs_as_better(self) -> None:
        """A config that was measured twice as fast as another has the lower posterior mean."""
        slow = poor_baseline()
        designer = self.make_designer(_engine_space(), 9)

        designer.update(
            [measured_trial(0, slow, [40.0, 41.0, 39.5]), measured_trial(1, default_config(), [20.0, 20.3])]
        )
        means = designer.predict([slow, default_config()]).mean_log_step_ms

        assert means[1] < means[0]

    def test_predicts_one_value_per_config(self) -> None:
        """Means and standard deviations have one value per config, also for unmeasured configs."""
        space = _engine_space()
        designer = self.make_designer(space, 10)
        designer.update(self.converse(designer, 3))

        prediction = designer.predict([space.random(np.random.default_rng(i)) for i in range(5)])

        assert (5,) == prediction.mean_log_step_ms.shape == prediction.std.shape
        assert np.all(prediction.std >= 0)

    def test_covariances_agree_with_the_standard_deviations(self) -> None:
        """The diagonal of a joint designer's covariance agrees with its standard deviations."""
        space = _engine_space()
        designer = self.make_designer(space, 13)
        designer.update(self.converse(designer, 3))
        configs = [space.random(np.random.default_rng(i)) for i in range(5)]

        if isinstance(designer, JointDesigner):
            covariance = designer.covariance(configs)
            assert np.allclose(covariance, covariance.T)
            assert np.allclose(np.sqrt(np.diag(covariance)), designer.predict(configs).std, atol=1e-6)
            assert np.linalg.eigvalsh(covariance).min() > -1e-6

    def test_update_replaces_what_was_known(self) -> None:
        """An update with other trials replaces the earlier ones."""
        config = default_config()
        designer = self.make_designer(_engine_space(), 11)

        designer.update([measured_trial(0, config, [10.0, 10.1, 9.9])])
        designer.update([measured_trial(0, config, [20.0, 20.1, 19.9])])

        assert abs(math.log(20.0) - designer.predict([config]).mean_log_step_ms[0]) < 0.05


class WrapperConformance(DesignerConformance):
    """Conformance suite of wrappers: no ability of the wrapped designer is lost. Subclass, and override `wrap`."""

    def wrap(self, designer: Designer) -> Designer:
        """Return the wrapper under test, around `designer`."""
        raise NotImplementedError

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return the wrapper around the default designer."""
        return self.wrap(make_designer(DEFAULT_DESIGNER, space, seed))

    def test_keeps_the_covariances(self) -> None:
        """The wrapper's joint posterior is the wrapped designer's."""
        space = _engine_space()
        plain, wrapped = make_designer(DEFAULT_DESIGNER, space, 14), self.make_designer(space, 14)
        trials = self.converse(make_designer(DEFAULT_DESIGNER, space, 14), 3)
        configs = [space.random(np.random.default_rng(i)) for i in range(4)]

        plain.update(trials)
        wrapped.update(trials)

        assert isinstance(plain, JointDesigner)
        assert isinstance(wrapped, JointDesigner)
        expected = plain.covariance(configs)
        assert np.count_nonzero(expected - np.diag(np.diag(expected))) > 0
        assert np.allclose(expected, wrapped.covariance(configs))

    def test_keeps_what_was_adopted_before(self) -> None:
        """The wrapper keeps the wrapped designer's config that an earlier run adopted."""
        adopted = poor_baseline()

        wrapped = self.wrap(_WarmStartedDesigner(adopted))
        wrapped.update([measured_trial(0, default_config(), [20.0])])

        assert isinstance(wrapped, WarmStartedDesigner)
        assert adopted == wrapped.adopted_before


class _WarmStartedDesigner(DesignerWrapper):
    """Random designer with a config that an earlier run adopted."""

    def __init__(self, adopted: Config) -> None:
        super().__init__(make_designer("random", _engine_space(), 0))
        self._adopted = adopted

    @property
    def adopted_before(self) -> Config | None:
        return self._adopted


def _engine_space() -> SearchSpace:
    return search_space({}, default_config())
