# SPDX-License-Identifier: Apache-2.0
"""Sentences on why a search ended: each way of ending has its own, and the result carries it."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtune.tuner import CategoryParameter, Config, RunSettings, SearchSpace, Suggestion, VoidReason
from ringtune.tuner.designers import make_designer
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface
from tests.unit.tuner.recording import tune

SPACE = SearchSpace([CategoryParameter("level", ("1", "2", "3"), "1")], {})
BUDGET = RunSettings(max_samples=None, max_steps=3000, warmup_steps=0, seed=1)
QUIET = Disturbances(step_noise=0.001, window_noise=0.0)


def launches(max_samples: int | None = None, **settings: object) -> RunSettings:
    """Return the settings of a run of launches."""
    return RunSettings(run_id="a", max_samples=max_samples, fixed_windows=True, warmup_steps=0, **settings)  # type: ignore[arg-type]


def target(**arguments: object) -> SyntheticTarget:
    """Return a target with three configs that are all alike."""
    given = {"space": SPACE, "baseline": SPACE.default(), "surface": flat_surface, "disturbances": QUIET, **arguments}
    return SyntheticTarget(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "ended"),
    [
        (launches(1), "the one sample of --max-samples=1 was used."),
        (launches(2), "all 2 samples of --max-samples=2 were used."),
        (RunSettings(max_samples=2), "all 2 samples of AUTOTUNE_MAX_SAMPLES=2 were used."),
        (launches(max_steps=60), " of --max-steps=60 were used, and no further launch fits beside the adoption test."),
        (RunSettings(max_samples=None, max_seconds=2.0), " of AUTOTUNE_MAX_SECONDS=2 were used, and no further window"),
        (
            launches(30),
            "all 3 configs were tried, and one more sample of any of them is expected to gain less than 0.02 %.",
        ),
    ],
)
def test_a_budget_or_its_lack_of_use_is_named(settings: RunSettings, ended: str) -> None:
    """The sentence has the limit under the name that people set, and how much of it was used."""
    designer = make_designer("gp" if settings.fixed_windows else "random", SPACE, 0, are_trials_cheap=True)

    result = tune(target(), designer, settings).result

    assert result.ended.startswith("The search ended because ")
    assert ended in result.ended


def test_a_live_job_ends_its_search_once_nothing_more_is_to_be_gained() -> None:
    """The engine's space is infinite: the newest suggestions were worth too little."""
    job = SyntheticTarget(surface=flat_surface, disturbances=QUIET)

    result = tune(job, make_designer("gp", job.space(), 0), RunSettings(max_samples=60)).result

    expected = f"each of the last {POLICY.patience} suggestions was expected to gain less than 0.02 %."
    assert f"The search ended because {expected}" == result.ended


def noisy(**arguments: object) -> SyntheticTarget:
    """Return a live job whose windows differ by a few percent."""
    return SyntheticTarget(disturbances=Disturbances(step_noise=0.1, window_noise=0.01), seed=1, **arguments)  # type: ignore[arg-type]


def test_the_second_half_asks_for_more_where_nothing_promises_a_gain() -> None:
    """Noise keeps each sample worth a little more than 0.02 %, and would use up the budget."""
    job = noisy(surface=flat_surface)

    result = tune(job, make_designer("gp", job.space(), 1), BUDGET).result

    assert f"each of the last {POLICY.patience} suggestions was expected to gain less than 0.1 %" in result.ended
    assert 3000 / 2 * (1 - POLICY.test_share) < result.steps < 3000 / 2


def test_a_search_that_promises_a_gain_goes_on() -> None:
    """The same noise, where other configs are faster."""
    job = noisy()

    result = tune(job, make_designer("gp", job.space(), 1), BUDGET).result

    assert "0.1 %" not in result.ended
    assert result.verdict.startswith("adopted")


def test_configs_that_all_failed_are_part_of_the_reason() -> None:
    """The budget alone would not tell that every measurement failed."""

    class Failing(SyntheticTarget):
        def _void_reason(self) -> VoidReason | None:
            return None if self.applied[-1] == SPACE.default() else VoidReason.LAUNCH_FAILED

    job = Failing(space=SPACE, baseline=SPACE.default(), surface=flat_surface)

    result = tune(job, make_designer("gp", SPACE, 0), launches(4)).result

    assert "all 4 samples of --max-samples=4 were used; all 2 tried configs failed." in result.ended


def test_noise_that_hides_what_is_left_is_part_of_the_reason() -> None:
    """The verdict has the numbers; the reason says that another search would end alike."""
    job = target(disturbances=Disturbances(step_noise=0.3, window_noise=0.3))

    result = tune(job, make_designer("gp", SPACE, 0, are_trials_cheap=True), launches(2, adoption_pairs=2)).result

    assert "too noisy to tell" in result.verdict
    assert result.ended.endswith("were used; the noise hides the gains that are left.")


def test_an_interrupted_run_names_the_phase() -> None:
    """During the search the search has no other reason; in the test it has ended before."""
    early, late = (target(surface=lambda c: math.log(20.0 / float(str(c["level"])))) for _ in range(2))
    early._disturbances = Disturbances(closes_after_windows=4)
    late._disturbances = Disturbances(closes_after_windows=8)

    ended = [tune(job, make_designer("random", SPACE, 0), launches(3)).result.ended for job in (early, late)]

    assert "The search ended in the search phase because it was interrupted." == ended[0]
    assert (
        "The search ended because all 3 samples of --max-samples=3 were used; then the adoption phase ended because it "
        "was interrupted."
    ) == ended[1]


class Raising:
    """A designer that cannot suggest."""

    name = "raising"

    def update(self, trials: Sequence[object]) -> None:
        """Ignore the trials."""

    def suggest(self) -> Suggestion:
        """Fail."""
        raise OSError("no model")

    def predict(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Fail."""
        raise OSError("no model")


def test_a_run_that_could_not_go_on_names_the_fault() -> None:
    """A designer that raises, a baseline that is void, and a space without a free knob end a run before its budget."""
    pinned = SearchSpace(SPACE.parameters, {"level": "1"})
    void = Disturbances(void={VoidReason.PAUSE: 1.0})

    ended = [
        tune(target(), Raising(), launches(4)).result.ended,  # type: ignore[arg-type]
        tune(target(disturbances=void), None, launches(4)).result.ended,
        tune(target(space=pinned), None, launches(4)).result.ended,
    ]

    assert "The search ended because designer raising raised OSError('no model')." == ended[0]
    assert "The search ended because no window of the baseline was valid" in ended[1]
    assert "The search ended because there was nothing to tune, every parameter is fixed." == ended[2]
