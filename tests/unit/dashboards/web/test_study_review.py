# SPDX-License-Identifier: Apache-2.0
"""A study as the review sees a run: the windows that count, in their order, and what was found."""

from dataclasses import replace

from ringtune.dashboards.web.study_review import MAX_KEPT, StudyReviews, review_of
from ringtune.service.domain.overview import ShownStudy, StoredResult
from ringtune.tuner import Config, SearchSpace, default_config
from ringtune.tuner.parameters import ENGINE_PARAMETERS
from tests.unit.dashboards.web.test_wording import BEST, STUDY

FAST = default_config().replace({"cycle_ms": 0.3})


def result(number: int, config: Config, median_ms: float, phase: str = "search") -> StoredResult:
    """Return a result that counts."""
    return StoredResult(
        number=number,
        trial_id=f"t{number}",
        job_id=f"job {number % 2}",
        run_id=None,
        status="new",
        status_reason=None,
        phase=phase,
        config=config,
        score_bytes_per_s=1e9,
        median_step_ms=median_ms,
        mad_step_ms=0.1,
        steps=20,
        valid=True,
        void_reason=None,
        speedup=None,
        ci_low=None,
        ci_high=None,
        pairs=None,
        age_s=1.0,
    )


def shown(*results: StoredResult) -> ShownStudy:
    """Return a study with these results."""
    space = SearchSpace(ENGINE_PARAMETERS, {}).to_json()
    study = replace(STUDY, best=replace(BEST, config=FAST))
    return ShownStudy(study, space, None, 0, results, len(results), (), (), ())


def windows() -> list[StoredResult]:
    """Return windows of two jobs, under the default and under a faster config."""
    baseline = [result(number, default_config(), 20.0 + 0.1 * number, "baseline") for number in range(1, 5)]
    return [*baseline, *(result(number, FAST, 15.0 + 0.1 * number) for number in range(5, 9))]


def test_windows_are_in_their_order_and_what_does_not_count_is_left_out() -> None:
    """Quarantined results, and those that carry a paired test: it repeats a window."""
    tests = replace(result(9, FAST, 15.0, "adoption"), speedup=0.3, ci_low=0.2, ci_high=0.4, pairs=6)
    apart = replace(result(10, FAST, 1.0), status="quarantined")
    void = replace(result(11, FAST, 15.0), valid=False, void_reason="pause")

    run = review_of(shown(*windows(), tests, apart, void))

    assert [*[20.1, 20.2, 20.3, 20.4], *[15.5, 15.6, 15.7, 15.8], 15.0] == [sample.step_ms for sample in run.tried]
    assert [0] * 4 + [1] * 5 == [sample.trial_id for sample in run.tried]
    assert (default_config(), FAST, 6) == (run.baseline, run.chosen, run.pairs)
    assert ("pause", None) == (run.tried[-1].reason, run.tried[-1].log_time)


def test_a_review_is_made_anew_when_what_it_says_of_the_study_changes() -> None:
    """A name that a later job told, or what other jobs say of the best config while its windows stay as they are."""
    reviews = StudyReviews()
    nameless = shown(*windows())
    named = replace(nameless, study=replace(nameless.study, model_name="resnet"))
    best = replace(BEST, config=FAST, evidence=replace(BEST.evidence, speedup=0.5))
    better = replace(nameless, study=replace(nameless.study, best=best))

    before = reviews.get(nameless)

    assert (nameless.study.model_name, "resnet") == (before.run.model_name, reviews.get(named).run.model_name)
    assert 0.5 == reviews.get(better).run.speedup
    assert before is reviews.get(nameless)


def test_the_figures_are_the_report_s() -> None:
    """As many as the windows allow; without windows there is none."""
    reviews = StudyReviews()

    names = {figure.name for figure in reviews.get(shown(*windows())).figures}

    assert {"convergence", "distribution", "sensitivity", "slice-0", "parallel"} == names
    assert () == reviews.get(shown()).figures


def test_a_review_is_made_once_until_a_result_comes() -> None:
    """And only so many are kept."""
    reviews = StudyReviews()
    first = reviews.get(shown(*windows()))

    assert first is reviews.get(shown(*windows()))
    assert first is not reviews.get(shown(*windows()), "job 1")
    assert first is not reviews.get(shown(*windows(), result(9, FAST, 14.0)))
    for number in range(MAX_KEPT):
        reviews.get(shown(result(100 + number, FAST, 14.0)))
    assert first is not reviews.get(shown(*windows()))
