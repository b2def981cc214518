# SPDX-License-Identifier: Apache-2.0
"""Figures of studies in words."""

from dataclasses import replace

import pytest

from ringtune.dashboards.web import wording
from ringtune.service.domain.overview import ListedStudy, MeanGain, ReporterStand
from ringtune.shared_service.rest_models import Evidence
from ringtune.system.counts import counted
from tests.unit.dashboards.web.studies import BEST, KEPT, OPEN, STUDY

REASON = "prior: adopted in paired tests of 2 tokens, over another baseline than the default"
UNCONFIRMED = replace(STUDY, best=replace(BEST, is_confirmed=False, reason=REASON, is_over_default=False))
PRIOR, DEFAULT = ("prior", "prior"), ("none", "default")
UNDECIDED = replace(STUDY, best=None, advice=OPEN)


@pytest.mark.parametrize(
    ("study", "kind", "headline", "words"),
    [
        (STUDY, "confirmed", "+12.5\u00a0% speed\u2011up", "2 jobs adopted a config, 1 job keeps the default"),
        (UNCONFIRMED, "prior", "2 jobs adopted a config, 1 job keeps the default", "no gain is promised"),
        (replace(UNCONFIRMED, states={"running": 1}), "prior", "Nothing is decided yet", "no gain is promised"),
        (replace(UNDECIDED, advice=KEPT, states={"keeping_default": 3}), "none", "3 jobs keep the default", "newest"),
        (replace(UNDECIDED, states={"lost": 1}), "open", "1 job crashed or was lost", "default stays"),
        (replace(UNDECIDED, states={"running": 2}), "open", "2 jobs are running", "default stays"),
        (replace(STUDY, best=None, trials=0, jobs=0, states={}), "empty", "No results yet", "starts with the default"),
    ],
)
def test_a_study_s_finding_is_its_jobs_verdicts(study: ListedStudy, kind: str, headline: str, words: str) -> None:
    """A gain is named where it is confirmed; a job that came to no decision kept no default."""
    finding = wording.finding_of(study)

    assert (kind, headline) == (finding.kind, finding.headline)
    assert words in finding.detail
    assert kind == "confirmed" or "%" not in finding.headline + finding.detail


@pytest.mark.parametrize(
    ("gain", "short", "told"),
    [
        (MeanGain(), "", ""),
        (MeanGain(jobs=3), "", "0.0 %. 3 jobs kept the default, which counts as 0."),
        (MeanGain(1, 1, 0.0953, 1e-4), "", "+10.0 % (90 % interval +8.2 % to +11.8 %). 1 job adopted a config."),
        (
            MeanGain(4, 2, 0.1906, 8e-4),
            "mean gain +4.9 %, 90 % interval +3.7 % to +6.1 %, 4 jobs",
            "+4.9 % (90 % interval +3.7 % to +6.1 %). 2 jobs adopted a config, 2 kept the default, which counts as 0.",
        ),
    ],
)
def test_a_mean_gain_says_its_interval_and_over_what(gain: MeanGain, short: str, told: str) -> None:
    """A study's line does not repeat its verdicts; the list's sentence gives the number of jobs that count as 0."""
    assert short == wording.short_mean_gain(gain).replace("\u00a0", " ")
    over = f"Mean gain over {counted(gain.jobs, 'verdict')}, the newest of each study: " if gain.jobs else ""
    assert f"{over}{told}" == wording.told_mean_gain(gain).replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("study", "verdicts", "start"),
    [
        (STUDY, ["2 adopted +12.5\u00a0%", "1 kept the default"], ("confirmed", "confirmed")),
        (
            replace(UNCONFIRMED, states={"adopted": 1, "lost": 1}),
            ["1 adopted +12.5\u00a0%", "1 crashed or lost"],
            PRIOR,
        ),
        (replace(UNDECIDED, advice=KEPT, states={"keeping_default": 2}), ["2 kept the default"], DEFAULT),
        (replace(UNDECIDED, states={"ended_early": 1, "running": 1}), ["1 ended early", "1 running"], DEFAULT),
        (replace(UNDECIDED, states={}), [], DEFAULT),
    ],
)
def test_a_list_says_verdicts_and_what_a_job_starts_with(
    study: ListedStudy, verdicts: list[str], start: tuple[str, str]
) -> None:
    """The gain is that of the jobs' own tests, and the first config of a job is the recommended one."""
    assert verdicts == [text for _, text in wording.told_verdicts(study)]
    assert start == wording.start_of(study)


def test_a_prior_gives_the_recommendation_s_own_reason() -> None:
    """A study whose jobs agree over another baseline says so; its times are under that baseline."""
    finding = wording.finding_of(UNCONFIRMED)

    assert finding.detail.startswith("Prior: adopted in paired tests of 2 tokens, over another baseline")
    assert ["default", "baseline"] == [wording.baseline_of(study) for study in (STUDY, UNCONFIRMED)]


STAND = ReporterStand("ci", "a" * 16, None, 2, 1, 0, "adopted", 0.1, 0.05, 0.15)


@pytest.mark.parametrize(
    ("stand", "expected"),
    [
        (STAND, "token ci adopted it: +10.0\u00a0% (+5.0\u00a0% to +15.0\u00a0%) in 1 paired test"),
        (replace(STAND, stand="kept"), "token ci tested it and kept the default"),
        (
            replace(STAND, name="f" * 36, job_id="f" * 36, stand="unclear"),
            "job ffffffffff… has windows that tell nothing",
        ),
        (
            replace(STAND, name="night run", job_id="f" * 36, stand="slower"),
            "job night run has windows slower",
        ),
    ],
)
def test_a_gain_is_told_of_what_a_reporter_adopted_alone(stand: ReporterStand, expected: str) -> None:
    """Windows and a kept default come without a number."""
    sentence = wording.said(stand)

    assert sentence.startswith(expected)
    assert ("%" in sentence) == (stand.stand == "adopted")


def test_pages_say_which_jobs_are_trusted() -> None:
    """Pages name open services and declared tokens; tokens that count once need no words."""
    open_job, declared = replace(STAND, job_id="1", token_id=None), replace(STAND, job_id="2")

    texts = [wording.trust([replace(BEST, stands=stands)]) for stands in ((STAND,), (open_job,), (open_job, declared))]

    assert [0, 1, 2] == list(map(len, texts))
    assert "loopback" in texts[1][0]


def test_a_page_is_live_while_a_job_runs() -> None:
    """A page without a running job gives the time of the last result."""
    assert "Live: 1 job is running" == wording.live_words({"running": 1, "lost": 2}, 5.0)
    assert "No job is running; last result 3 minutes ago" == wording.live_words({"adopted": 1}, 185.0)
    assert "No job is running" == wording.live_words({}, None)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, "-"),
        (0.0, "just now"),
        (59.9, "59 seconds ago"),
        (60.0, "1 minute ago"),
        (7200.0, "2 hours ago"),
        (86_400.0 * 1500, "1,500 days ago"),
    ],
)
def test_ages_are_in_the_unit_that_suits_them(seconds: float | None, expected: str) -> None:
    """Whole ones."""
    assert expected == wording.age(seconds)


def test_what_has_no_name_is_known_by_its_fingerprint() -> None:
    """A nameless model is shown by the beginning of its fingerprint."""
    assert "resnet50" == wording.name_of(STUDY)
    assert "machine aaaaaaaaaa…" == wording.hardware_of(STUDY)
    assert "EPYC, 2 cores" == wording.hardware_of(replace(STUDY, machines="EPYC, 2 cores"))
    assert "Rack 7" == wording.hardware_of(replace(STUDY, hardware_name="Rack 7", machines="EPYC, 2 cores"))
    assert "6 ranks on 2 hosts" == wording.layout(STUDY.key.layout)
    assert "2 + 4" == wording.ranks_of_hosts(STUDY.key.layout)
    assert "1 + 1 + 1 + 1 + 1 + 1 + …" == wording.ranks_of_hosts((1,) * 9)


def test_without_an_interval_there_is_no_number() -> None:
    """A dash is not a zero."""
    assert ("-", "-", "-") == (wording.speedup(Evidence()), wording.bounds(Evidence()), wording.with_bounds(Evidence()))
    assert ("not told", "1.5 kB", "999 B") == (wording.size(None), wording.size(1500), wording.size(999))
    assert ("-", "1,234.50 ms") == (wording.milliseconds(None), wording.milliseconds(1234.5))
