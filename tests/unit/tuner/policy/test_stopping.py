# SPDX-License-Identifier: Apache-2.0
"""Tests of the end of a search that no longer pays, on outlooks and on whole runs of the default designer."""

import math

import pytest

from ringtune.tuner import Config, Phase, RunSettings, Suggestion, default_config, make_designer, search_space
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy.designer_watchdog import Advice, Outlook
from ringtune.tuner.policy.stopping import HOPELESS_IN_A_ROW, LEAST_CONFIGS, Patience, chance_of
from ringtune.tuner.testing import SyntheticTarget, flat_surface
from tests.unit.tuner.recording import Outcome, tune

HOPELESS, HOPEFUL = Outlook(-0.02, 0.005), Outlook(0.0, 0.05)
BUDGET = 20


def advice(outlook: Outlook, expected_gain: float = 0.0) -> Advice:
    """Return advice with an outlook, where the best config is expected to gain so much."""
    return Advice(Suggestion(default_config()), default_config(), expected_gain, 1.0, outlook)


def tried(outcome: Outcome) -> int:
    """Return the number of configs that the search measured."""
    return len({r.trial_id for r in outcome.records if isinstance(r, SampleRecord) and r.phase == Phase.SEARCH})


def test_the_chance_of_a_gain_counts_the_uncertainty() -> None:
    """A suggestion expected to be equal has no chance when it is certain, and some when it is not."""
    assert pytest.approx(0.5) == chance_of(0.01, Outlook(0.01, 0.02))
    assert chance_of(0.01, Outlook(0.0, 0.002)) < 1e-4
    assert chance_of(0.01, Outlook(0.0, 0.05)) > 0.4


@pytest.mark.parametrize(("expected_gain", "is_over"), [(0.0, True), (0.1, False)])
def test_half_a_percent_is_worth_a_sample_where_a_test_is_due_anyway(expected_gain: float, is_over: bool) -> None:
    """A sample is worth less where the best config known is as fast as the baseline: a test would need one percent."""
    patience = Patience()

    ends = [patience.is_over(advice(Outlook(0.002, 0.003), expected_gain), LEAST_CONFIGS) for _ in range(5)]

    assert is_over == ends[-1]


def test_patience_ends_after_hopeless_suggestions_in_a_row() -> None:
    """One hopeful suggestion between them begins the count anew."""
    patience = Patience()

    outlooks = [HOPELESS] * (HOPELESS_IN_A_ROW - 1) + [HOPEFUL] + [HOPELESS] * HOPELESS_IN_A_ROW
    ends = [patience.is_over(advice(outlook), LEAST_CONFIGS) for outlook in outlooks]

    assert [False] * (len(outlooks) - 1) + [True] == ends


def test_a_search_never_ends_before_enough_configs_were_measured() -> None:
    """The least number of configs holds, whatever a model of three samples believes."""
    patience = Patience()

    assert not any(patience.is_over(advice(HOPELESS), LEAST_CONFIGS - 1) for _ in range(10))


def test_a_designer_that_does_not_say_how_sure_it_is_spends_the_budget() -> None:
    """Its standard deviation of zero is no certainty."""

    class Certain(RandomDesigner):
        """Expects the same of everything."""

        def suggest(self) -> Suggestion:
            """Suggest with a score and without a doubt."""
            return Suggestion(super().suggest().config, 1e6, 0.0)

    target = SyntheticTarget(surface=flat_surface)

    assert tried(tune(target, Certain(target.space(), 0), RunSettings(max_samples=BUDGET))) == BUDGET


def test_a_flat_search_ends_early() -> None:
    """Over one knob that does nothing two thirds of the budget do in most seeds, and the default is kept."""
    counts, seeds = [], 16
    for seed in range(seeds):
        space = search_space({}, default_config(), tuned=("cycle_ms",))
        target = SyntheticTarget(surface=flat_surface, seed=seed, space=space)
        outcome = tune(target, make_designer("gp", space, seed), RunSettings(seed=seed, max_samples=BUDGET))
        counts.append(tried(outcome))
        assert not outcome.result.adopted

    assert sum(count <= 2 * BUDGET // 3 for count in counts) > seeds // 2
    assert min(counts) >= LEAST_CONFIGS - 1


def test_a_search_goes_on_while_there_is_a_gain_to_be_found() -> None:
    """An optimum on a tenth of the axis, 20 % below the rest, is found in five of five seeds."""

    def narrow(config: Config) -> float:
        off = (math.log2(float(config["cycle_ms"])) - math.log2(8.0)) / 0.7
        return math.log(20.0) - 0.2 * math.exp(-(off**2))

    speedups = []
    for seed in range(5):
        space = search_space({}, default_config(), tuned=("cycle_ms",))
        target = SyntheticTarget(surface=narrow, seed=seed, space=space)
        result = tune(target, make_designer("gp", space, seed), RunSettings(seed=seed, max_samples=BUDGET)).result
        speedups.append(target.true_speedup(result.config))

    assert min(speedups) > 0.15
