# SPDX-License-Identifier: Apache-2.0
"""Outlook on simulated objectives: the predicted gain of further launches, against the possible gain."""

import math
from dataclasses import replace

import pytest

from ringtune.tuner import CategoryParameter, Config, RunSettings, SearchSpace, VoidReason, make_designer
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.review import RunReview, analyse, review_run
from ringtune.tuner.review.outlook import Outlook, batch_gains, outlook
from ringtune.tuner.testing import SyntheticTarget
from tests.unit.tuner.recording import tune

LARGE, SMALL, MANY = (10, 20, 20), (3, 3, 2), (10, *(3,) * 8)


def space_of(sizes: tuple[int, ...]) -> SearchSpace:
    """Return a space with one choice of powers of two per size; the default is the first one of each."""
    names = [tuple(str(2**power) for power in range(size)) for size in sizes]
    return SearchSpace([CategoryParameter(f"k{i}", choices, "1") for i, choices in enumerate(names)], {})


class Valley(SyntheticTarget):
    """A job that is fastest near four fifths of each of its first knobs; values above `works_to` of k0 fail."""

    def __init__(self, sizes: tuple[int, ...], works_to: float = math.inf, matter: int = 3) -> None:
        space = space_of(sizes)
        super().__init__(surface=self._log_ms, baseline=space.default(), space=space)
        self._sizes, self._works_to = sizes[:matter], works_to

    def _log_ms(self, config: Config) -> float:
        places = (math.log2(float(str(config[f"k{i}"]))) / (size - 1) for i, size in enumerate(self._sizes))
        return math.log(20.0) + sum((place - 0.8) ** 2 for place in places)

    def _void_reason(self) -> VoidReason | None:
        return VoidReason.LAUNCH_FAILED if float(str(self.applied[-1]["k0"])) > self._works_to else None


def run_of(target: SyntheticTarget, max_samples: int, designer: str = "gp") -> RunReview:
    """Return a run of launches."""
    settings = RunSettings(run_id="a", max_samples=max_samples, fixed_windows=True, warmup_steps=0, adoption_pairs=2)
    made = make_designer(designer, target.space(), 0, are_trials_cheap=True)
    log = RunLog("a")
    for record in tune(target, made, settings).records:
        log.add(record)
    return review_run(log)


def outlook_of(run: RunReview) -> Outlook:
    """Return the outlook of a run that has one."""
    seen = outlook(run, analyse(run))
    assert seen is not None
    return seen


def test_less_is_expected_the_more_is_known() -> None:
    """After five of four thousand configs a clear and uncertain gain is expected, after 20 hardly any."""
    few, many = (outlook_of(run_of(Valley(LARGE), count)) for count in (5, 20))

    assert 5 == few.launches
    assert few.expected > 0.05
    assert few.low < few.expected < few.high
    assert many.high < 0.1 * few.high


def test_a_promise_that_the_search_did_not_keep_is_cut() -> None:
    """One knob of nine matters, and the first launches have found its best value: the model alone would hope on."""
    run = run_of(Valley(MANY, matter=1), 16)
    analysis = analyse(run)
    assert analysis.surrogate is not None

    promised = float(batch_gains(run, analysis.surrogate, 16).mean())

    assert promised > 0.1
    assert outlook_of(run).expected < 0.03


def test_nothing_is_expected_once_every_config_was_tried() -> None:
    """Eighteen configs are all there are."""
    seen = outlook_of(run_of(Valley(SMALL), 20))

    assert (0.0, 0.0, 0.0) == (seen.expected, seen.low, seen.high)


def test_less_is_expected_of_configs_that_may_fail() -> None:
    """The fast half of a knob fails: without these launches the model would expect its gain."""
    run = run_of(Valley((20,), works_to=16.0), 8)
    without = replace(run, tried=tuple(sample for sample in run.tried if sample.valid))

    assert outlook_of(run).expected < 0.5 * outlook_of(without).expected


@pytest.mark.parametrize(("designer", "max_samples"), [("random", 8), ("gp", 1)])
def test_there_is_no_outlook_without_the_model_that_would_search_on(designer: str, max_samples: int) -> None:
    """Another designer chooses otherwise than the model; two configs are too few for it."""
    run = run_of(Valley(LARGE), max_samples, designer)

    assert outlook(run, analyse(run)) is None
