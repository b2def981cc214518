# SPDX-License-Identifier: Apache-2.0
"""A job of a study as the review sees a run, and as people read it: its windows, its state, its tables."""

from dataclasses import replace

import pytest

from ringtune.dashboards.web.study_jobs import decided_job, job_rows, leading_job
from ringtune.dashboards.web.study_review import MAX_KEPT, StudyReviews, review_of
from ringtune.dashboards.web.tables import Row, csv_reply
from ringtune.dashboards.web.views.study import changes
from ringtune.service.domain.jobs import State, StudyJob
from ringtune.service.domain.overview import JobPart, LedgerResult, ShownStudy
from ringtune.service.domain.values import PairedTestResult
from ringtune.tuner import Config, SearchSpace, default_config
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS
from tests.unit.dashboards.web.studies import BEST, STUDY

DEFAULT = default_config()
FAST = default_config().replace({"cycle_ms": 0.3})
TEST = PairedTestResult(0.3, 0.2, 0.4, 6)


def result(number: int, config: Config, median_ms: float, phase: str = "search") -> LedgerResult:
    """Return a result that counts."""
    return LedgerResult(
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


def job(number: int = 0, state: State = "adopted", test: PairedTestResult | None = TEST) -> StudyJob:
    """Return a job, by default one that adopted the faster config."""
    return StudyJob(f"job {number}", state, None, None, (), None, 8, 60.0, 5.0, 180.0, test, FAST if test else None)


def shown(*results: LedgerResult, jobs: tuple[StudyJob, ...] = ()) -> ShownStudy:
    """Return a study with these results."""
    space = SearchSpace(ENGINE_PARAMETERS, {}).to_json()
    study = replace(STUDY, best=replace(BEST, config=FAST))
    parts = {item.job_id: JobPart(7, 20.5, 16.0, "search") for item in jobs}
    return ShownStudy(study, space, None, 0, results, len(results), (), jobs, parts, ())


def windows() -> list[LedgerResult]:
    """Return windows of two jobs by turns, under the default and under a faster config."""
    baseline = [result(number, default_config(), 20.0 + 0.1 * number, "baseline") for number in range(1, 9)]
    return [*baseline, *(result(number, FAST, 15.0 + 0.1 * number) for number in range(9, 17))]


def test_one_job_s_windows_are_on_one_axis_in_their_order() -> None:
    """The axis has no windows of other jobs, no quarantined ones, and no results that carry a paired test."""
    tests = replace(result(18, FAST, 15.0, "adoption"), speedup=0.3, ci_low=0.2, ci_high=0.4, pairs=6)
    apart = replace(result(20, FAST, 1.0), status="quarantined")
    void = replace(result(22, FAST, 15.0), valid=False, void_reason="pause")

    run = StudyReviews().get(shown(*windows(), tests, apart, void), job()).run

    assert [*[20.2, 20.4, 20.6, 20.8], *[16.0, 16.2, 16.4, 16.6], 15.0] == [sample.step_ms for sample in run.tried]
    assert [0] * 4 + [1] * 5 == [sample.trial_id for sample in run.tried]
    assert (default_config(), FAST, 6) == (run.baseline, run.chosen, run.pairs)
    assert ("pause", None) == (run.tried[-1].reason, run.tried[-1].log_time)


def test_a_job_that_keeps_the_default_has_no_gain() -> None:
    """A job that kept the default has no gain, whatever its test measured."""
    kept, adopted = (review_of(shown(), job(state=state), windows()) for state in ("keeping_default", "adopted"))

    assert (False, None, None) == (kept.adopted, kept.chosen, kept.speedup)
    assert (True, FAST, 0.3) == (adopted.adopted, adopted.chosen, adopted.speedup)


def test_a_review_is_made_anew_when_what_it_says_changes() -> None:
    """A later job's name and the job's decision count, even if its windows stay as they are."""
    reviews = StudyReviews()
    nameless = shown(*windows())
    named = replace(nameless, study=replace(nameless.study, model_name="resnet"))

    before = reviews.get(nameless, job())

    assert (nameless.study.model_name, "resnet") == (before.run.model_name, reviews.get(named, job()).run.model_name)
    assert None is reviews.get(nameless, job(state="running", test=None)).run.speedup
    assert before is reviews.get(nameless, job())


def test_the_figures_are_the_report_s() -> None:
    """The figures are those of the report that the windows allow; without windows or a job there are none."""
    reviews = StudyReviews()

    names = {figure.name for figure in reviews.get(shown(*windows()), job()).figures}

    assert {"convergence", "distribution", "sensitivity", "slice-0", "parallel"} == names
    assert () == reviews.get(shown(), job()).figures == reviews.get(shown(), None).figures


def test_a_review_is_made_once_until_a_result_comes() -> None:
    """A review is kept until a result comes, and the number of kept ones is bounded."""
    reviews = StudyReviews()
    first = reviews.get(shown(*windows()), job())

    assert first is reviews.get(shown(*windows()), job())
    assert first is not reviews.get(shown(*windows()), job(1))
    assert first is not reviews.get(shown(*windows(), result(18, FAST, 14.0)), job())
    for number in range(MAX_KEPT):
        reviews.get(shown(result(100 + 2 * number, FAST, 14.0)), job())
    assert first is not reviews.get(shown(*windows()), job())


def test_the_newest_decided_job_leads() -> None:
    """A page draws one that runs before it; one without a window never, unless it is asked for."""
    jobs = (job(0, "lost", None), job(1), job(2, "running", None))
    study = shown(*windows(), jobs=jobs)

    assert "job 1" == (leading_job(study) or jobs[0]).job_id
    assert "job 2" == (leading_job(study, "job 2") or jobs[0]).job_id
    assert None is leading_job(study, "nobody")
    assert None is leading_job(shown(jobs=jobs))
    newest = (replace(job(0, "keeping_default"), idle_s=1.0), job(1))
    assert "job 0" == (decided_job(shown(*windows(), jobs=newest)) or jobs[0]).job_id
    assert "job 0" == (decided_job(shown(*windows(), jobs=(job(0, "lost"), job(1, "running")))) or jobs[1]).job_id


@pytest.mark.parametrize(
    ("state", "test", "label", "words"),
    [
        ("running", None, "running", "search phase"),
        ("adopted", TEST, "adopted", "6 pairs"),
        ("keeping_default", TEST, "keeping default", "6 pairs"),
        ("keeping_default", None, "keeping default", "nothing was worth a paired test"),
        ("ended_early", None, "ended early", "8 results"),
        ("lost", None, "crashed or lost", "silent for 5 seconds without a decision; 3 minutes"),
    ],
)
def test_a_job_s_state_is_said_with_its_reason(
    state: State, test: PairedTestResult | None, label: str, words: str
) -> None:
    """A gain is told of an adopted config alone."""
    (row,) = job_rows(shown(*windows(), jobs=(job(0, state, test),)))

    assert label == row.state
    assert words in row.detail
    assert ("%" in row.detail) == (state == "adopted")
    assert 7 == row.used
    assert (20.5, 16.0) == pytest.approx((row.baseline_ms, row.fastest_ms))


def test_tables_are_plain_numbers_and_texts_no_formulas() -> None:
    """A table has a column per key; a text that a spreadsheet would take for a formula gets an apostrophe."""
    rows: list[Row] = [{"name": "=1+1", "ms": 1.5, "is_used": True}, {"name": 'a "b", c', "ms": None, "more": 2}]

    reply = csv_reply("jobs", rows)

    assert b'name,ms,is_used,more\r\n\'=1+1,1.5,true,\r\n"a ""b"", c",,,2\r\n' == reply.body
    assert 'attachment; filename="jobs.csv"' == reply.headers["content-disposition"]


def test_a_change_that_rounding_hides_is_shown_in_full() -> None:
    """Both values read "1 ms"; the settings to paste have one of them."""
    evidence = BEST.evidence.model_copy(update={"baseline": dict(DEFAULT)})
    best = replace(BEST, config=DEFAULT.replace({"cycle_ms": 1.005}), evidence=evidence)

    shown = {name: (before, after) for name, before, after in changes(best)}

    assert ("1.0", "1.005") == shown["cycle_ms"]
    assert shown["fusion_bytes"] == ("64 MiB", "64 MiB")
