# SPDX-License-Identifier: Apache-2.0
"""Figures of studies in words."""

from dataclasses import replace

import pytest

from ringtune.dashboards.web import wording
from ringtune.service.domain.overview import BestConfig, ListedStudy
from ringtune.service.domain.values import Evidence, StudyKey
from ringtune.tuner import default_config

EVIDENCE = Evidence(trials=9, jobs=2, speedup=0.125, ci_low=0.05, ci_high=0.2, age_s=3.0)
BEST = BestConfig(default_config(), EVIDENCE, is_confirmed=True, is_promising=True)
STUDY = ListedStudy(
    study_id="0" * 32,
    key=StudyKey("a" * 64, "b" * 64, (2, 4)),
    model_name="resnet50",
    hardware_name=None,
    machines=None,
    trials=20,
    jobs=3,
    age_s=10.0,
    idle_s=1.0,
    states={},
    best=BEST,
    baseline_step_ms=20.0,
)


@pytest.mark.parametrize(
    ("study", "kind", "headline", "words"),
    [
        (STUDY, "confirmed", "+12.5\u00a0% speed-up", "9 results of 2 jobs"),
        (
            replace(STUDY, best=replace(BEST, is_confirmed=False)),
            "promising",
            "+12.5\u00a0% speed-up",
            "not the default",
        ),
        (
            replace(STUDY, best=replace(BEST, evidence=replace(EVIDENCE, ci_low=-0.02), is_confirmed=False)),
            "promising",
            "+12.5\u00a0% speed-up",
            "its interval reaches below zero",
        ),
        (
            replace(
                STUDY, best=BestConfig(BEST.config, replace(EVIDENCE, jobs=1), is_confirmed=False, is_promising=True)
            ),
            "promising",
            "+12.5\u00a0% speed-up",
            "one job measured it",
        ),
        (replace(STUDY, best=None), "none", "Keep the default", "20 results of 3 jobs"),
        (replace(STUDY, best=None, trials=0, jobs=0), "empty", "No results yet", "starts with the default"),
    ],
)
def test_a_study_s_finding_says_what_it_rests_on(study: ListedStudy, kind: str, headline: str, words: str) -> None:
    """Confirmed by several jobs, promised by one, nothing, or nothing measured."""
    finding = wording.finding_of(study)

    assert (kind, headline) == (finding.kind, finding.headline)
    assert words in finding.detail


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
    """By where it begins."""
    assert "resnet50" == wording.name_of(STUDY)
    assert "hardware aaaaaaaaaa…" == wording.hardware_of(STUDY)
    assert "6 ranks on 2 hosts" == wording.layout(STUDY.key.layout)
    assert "2 + 4" == wording.ranks_of_hosts(STUDY.key.layout)
    assert "1 + 1 + 1 + 1 + 1 + 1 + …" == wording.ranks_of_hosts((1,) * 9)


def test_without_an_interval_there_is_no_number() -> None:
    """A dash is not a zero."""
    assert ("-", "-", "-") == (wording.speedup(Evidence()), wording.bounds(Evidence()), wording.with_bounds(Evidence()))
    assert ("not told", "1.5 kB", "999 B") == (wording.size(None), wording.size(1500), wording.size(999))
    assert ("-", "1,234.50 ms") == (wording.milliseconds(None), wording.milliseconds(1234.5))
