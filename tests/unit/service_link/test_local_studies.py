# SPDX-License-Identifier: Apache-2.0
"""Tests of a machine's own recommendation: the newest verdict, the adopted config, and how sure it is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ringtune.tuner import default_config
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import AdoptionRecord, ResultRecord, RunRecord, SampleRecord
from ringtune.tuning.service_link.local_studies import StudyQuery, recommend_from

MODEL = "ab" * 32
KEY = {"hardware": "cd" * 32, "model": MODEL, "layout": [4, 4], "target": "ringtune", "surface_version": 1}
QUESTION = StudyQuery("resnet", 8, 4)
DEFAULT = default_config(QUESTION.layout)
NOW_UNIX_S = 2e9


def finished(
    name: str, ci_low: float, *, adopted: bool = True, age_s: float = 10.0, baseline: Any = None, **key: Any
) -> RunLog:
    """Return a finished run whose config is told by its cycle time, the bound in percent."""
    config = {**DEFAULT, "cycle_ms": 100 * ci_low}
    header: Mapping[str, Any] = {"layout": {}, "versions": {}, "search_space": {}, "fixed": {}, "steps_budget": {}}
    run = RunRecord(
        t_s=0.0,
        run_id=name,
        schema=1,
        unix_time_s=NOW_UNIX_S - age_s,
        model_name="resnet",
        key={**KEY, **key},
        baseline=DEFAULT.to_json() if baseline is None else baseline,
        seed=0,
        **header,
    )
    times = {"median": 1.0, "mad": 0.1, "mean": 1.0}
    samples = [
        SampleRecord(0.0, name, 1, number, phase, 1, config, 1.0, times, steps=5, valid=True, reason=None)
        for number, phase in enumerate(("search", "adoption"))
    ]
    low = ci_low if adopted else -ci_low
    adoption = AdoptionRecord(0.0, name, [{}, {}], low + 0.1, low, low + 0.2, "verdict", 0.9)
    result = ResultRecord(0.0, name, config if adopted else dict(run.baseline), adopted, low + 0.1, 1.0, 100)
    return RunLog(name, run, samples=samples, adoption=adoption, result=result)


def test_without_a_run_the_default_is_recommended() -> None:
    """The default comes without evidence, and with the reason."""
    offer = recommend_from([], QUESTION, NOW_UNIX_S)

    assert ("default", 0, DEFAULT) == (offer.source, offer.evidence.trials, offer.config)


def test_of_two_adopted_configs_the_earlier_stays() -> None:
    """Each run counts by itself: a tie, whatever the gains of the later one and of another layout."""
    runs = [finished("a", 0.2), finished("b", 0.3, age_s=1.0), finished("c", 0.4, layout=[8])]

    offer = recommend_from(runs, QUESTION, NOW_UNIX_S)

    assert ("exact", 20.0, None) == (offer.source, offer.config["cycle_ms"], offer.evidence.ci_low)
    assert (10.0, 3, 1) == (offer.evidence.age_s, offer.evidence.trials, offer.evidence.adopted)
    assert "prior" == offer.standing


def test_the_newest_verdict_comes_first() -> None:
    """A newer run that kept the default takes an adoption back; two adoptions hold against one."""
    kept = finished("kept", 0.3, adopted=False, age_s=1.0)

    after = recommend_from([finished("a", 0.2), kept, finished("far", 0.4, layout=[8])], QUESTION, NOW_UNIX_S)
    before = recommend_from([kept, finished("a", 0.2, age_s=0.5)], QUESTION, NOW_UNIX_S)
    upheld = recommend_from([finished("a", 0.2), finished("b", 0.2), kept], QUESTION, NOW_UNIX_S)

    assert ("exact", "default", DEFAULT) == (after.source, after.standing, after.config)
    assert (2, 6, 1.0) == (after.evidence.jobs, after.evidence.trials, after.evidence.age_s)
    assert ["prior", "confirmed"] == [before.standing, upheld.standing]


def test_any_machine_is_named() -> None:
    """The one with the newest verdict answers; one that is asked for is not named again."""
    other = "ef" * 32
    runs = [finished("a", 0.2, adopted=False), finished("b", 0.2, age_s=1.0, hardware=other)]

    anywhere = recommend_from(runs, QUESTION, NOW_UNIX_S)
    elsewhere = recommend_from(runs, replace(QUESTION, hardware="cd" * 32), NOW_UNIX_S)

    assert ("prior", other) == (anywhere.standing, anywhere.key and anywhere.key.hardware)
    assert "measured on machine efefefefef; 1 other machine measured it, too" in str(anywhere.reason)
    assert ("default", False) == (elsewhere.standing, "machine" in str(elsewhere.reason))


def test_two_runs_that_agree_are_no_prior_any_more() -> None:
    """Two runs that agree confirm a config, as at the service."""
    offer = recommend_from([finished("a", 0.2), finished("b", 0.2)], QUESTION, NOW_UNIX_S)

    assert (2, False) == (offer.evidence.jobs, offer.is_prior)
    assert 0.2 == pytest.approx(offer.evidence.ci_low, abs=0.01)


def test_a_later_run_is_no_second_job() -> None:
    """A later check or search of one job's watch agrees with that job, and does not confirm it."""
    first = finished("a", 0.2)
    assert first.run is not None
    first.run = replace(first.run, steps_budget={"max_samples": 20})
    check = replace(finished("b", 0.2), samples=[])
    search = finished("c", 0.2)
    assert search.run is not None
    search.run = replace(search.run, steps_budget={"max_samples": 10})

    offer = recommend_from([first, check, search], QUESTION, NOW_UNIX_S)

    assert (1, True) == (offer.evidence.jobs, offer.is_prior)


def test_a_gain_over_another_baseline_is_a_prior_that_comes_last() -> None:
    """Twice as fast as a poor baseline says little to a job that starts from the default."""
    poor = {**DEFAULT, "fusion_bytes": 65536}
    elsewhere = [finished(name, 0.9, baseline=poor) for name in ("a", "b")]

    over_default = recommend_from([*elsewhere, finished("c", 0.1)], QUESTION, NOW_UNIX_S)
    alone = recommend_from(elsewhere, QUESTION, NOW_UNIX_S)

    assert (10.0, DEFAULT) == (over_default.config["cycle_ms"], over_default.evidence.baseline)
    assert (2, True, poor) == (alone.evidence.jobs, alone.is_prior, alone.evidence.baseline)


def test_the_nearest_layout_answers_where_there_is_no_other() -> None:
    """The number of ranks decides which layout is nearest; its answer is a prior."""
    runs = [finished("far", 0.3, layout=[1]), finished("near", 0.2, layout=[8, 8])]

    offer = recommend_from(runs, QUESTION, NOW_UNIX_S)

    assert ("nearest", 20.0, True) == (offer.source, offer.config["cycle_ms"], offer.is_prior)


def test_another_machine_is_four_doublings_away() -> None:
    """A study of other hardware is a prior, as the service says it, behind one of this hardware in another layout."""
    runs = [finished("other machine", 0.3), finished("this machine", 0.2, hardware="ef" * 32, layout=[2, 2])]
    question = replace(QUESTION, hardware="ef" * 32)

    both, alone = (recommend_from(found, question, NOW_UNIX_S) for found in (runs, runs[:1]))

    assert ("nearest", 1.0, 20.0) == (both.source, both.distance, both.config["cycle_ms"])
    assert ("nearest", 4.0, True) == (alone.source, alone.distance, alone.is_prior)
    assert "measured on other hardware" in str(alone.reason)


@pytest.mark.parametrize("question", [replace(QUESTION, model="other"), replace(QUESTION, target="nccl")])
def test_what_was_asked_for_must_fit(question: StudyQuery) -> None:
    """Model and target."""
    assert "default" == recommend_from([finished("a", 0.2)], question, NOW_UNIX_S).source


def test_a_model_goes_by_its_fingerprint_too() -> None:
    """A model's fingerprint is the one in the log's key."""
    assert "exact" == recommend_from([finished("a", 0.2)], replace(QUESTION, model=MODEL), NOW_UNIX_S).source


def test_a_name_of_several_models_is_answered_by_candidates() -> None:
    """The answer is the default, with the fingerprints to choose from."""
    runs = [finished("a", 0.2), finished("b", 0.2, model="cd" * 32)]

    offer = recommend_from(runs, QUESTION, NOW_UNIX_S)

    assert "default" == offer.source
    assert [MODEL, "cd" * 32] == [candidate.model_fingerprint for candidate in offer.candidates]


def test_a_foreign_key_says_nothing() -> None:
    """A cache file is read as it is: keys of other programs are passed over."""
    keys: list[dict[str, Any]] = [{"layout": layout} for layout in (None, [], "x", [0], ["x"])]
    for key in (*keys, {"model": 3}):
        assert "default" == recommend_from([finished("a", 0.2, **key)], QUESTION, NOW_UNIX_S).source, key
