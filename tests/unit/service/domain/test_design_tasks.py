# SPDX-License-Identifier: Apache-2.0
"""Questions to a designer, and the answers of its process."""

import math
from typing import Any

import pytest

from ringtune.service.domain.canonical import canonical
from ringtune.service.domain.design_tasks import default_in, trials
from ringtune.service.domain.design_worker import suggest
from ringtune.service.store.rows import ReportRow
from ringtune.service.store.summary_rows import JobSummary
from ringtune.tuner import Config, SearchSpace, default_config, search_space, tunable_names
from tests.unit.service.domain.reported import BETTER, DEFAULT, GRADIENT_BYTES, OTHER
from tests.unit.service.domain.rows import report_row

SPACE = search_space({}, DEFAULT)


def ledger_row(job_id: str, config: Config, step_ms: float, phase: str = "search") -> ReportRow:
    """Return a result with the columns that a designer needs."""
    times = {"median_step_ms": step_ms, "mad_step_ms": 0.01 * step_ms, "mean_step_ms": step_ms}
    text = canonical(config.to_json())
    return report_row(job_id=job_id, config=text, phase=phase, **times, score_bytes_per_s=1e9)


def baseline_row(job_id: str, step_ms: float, config: Config = DEFAULT) -> JobSummary:
    """Return a job's baseline sums: one window."""
    return JobSummary(
        study_id="study",
        job_id=job_id,
        config_digest="",
        baseline=canonical(config.to_json()),
        samples=1,
        log_step_e9=round(1e9 * math.log(step_ms)),
    )


def task(rows: list[ReportRow], pending: list[Config], count: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return a problem as the process gets it."""
    return {
        "designer": "gp",
        "seed": 3,
        "space": SPACE.to_json(),
        "trials": trials(rows, [], DEFAULT),
        "pending": [config.to_json() for config in pending],
        "count": count,
        "gradient_bytes": list(sizes),
        "layout": [2],
    }


def test_jobs_are_made_comparable_by_their_baselines() -> None:
    """A config that is a fifth faster in a slow and in a fast job is a fifth faster."""
    rows = [
        ledger_row("slow", BETTER, 160.0),
        ledger_row("slow", DEFAULT, 200.0, "baseline"),
        ledger_row("fast", BETTER, 80.0),
        ledger_row("unknown", OTHER, 70.0),
    ]

    found = trials(rows, [baseline_row("slow", 200.0), baseline_row("fast", 100.0)], DEFAULT)

    assert [DEFAULT, BETTER, OTHER] == [trial["config"] for trial in found]
    medians = [[round(sample[0], 6) for sample in trial["samples"]] for trial in found]
    assert [[200.0], [160.0, 160.0], [70.0]] == medians


def test_a_job_with_another_baseline_is_not_scaled_by_it() -> None:
    """The other baseline is slow by its values, not by its machine."""
    rows = [ledger_row("alike", BETTER, 80.0), ledger_row("other", OTHER, 90.0)]
    baselines = [baseline_row("alike", 100.0), baseline_row("same", 100.0), baseline_row("other", 200.0, OTHER)]

    found = trials(rows, baselines, DEFAULT)

    assert [[], [80.0], [90.0]] == [[round(sample[0], 6) for sample in trial["samples"]] for trial in found]


def test_without_any_result_the_default_is_the_baseline() -> None:
    """The designer gets a first trial without samples."""
    assert [{"config": DEFAULT.to_json(), "samples": []}] == trials([], [], DEFAULT)


def test_the_baseline_is_the_layouts_default_where_the_space_has_it() -> None:
    """Else it is the space's own."""
    fixed = SearchSpace(SPACE.parameters, {**SPACE.fixed, "response_cache": False})
    between_hosts = search_space({}, default_config((2, 2)), tuned=tunable_names((2, 2), has_allgathers=False))

    assert DEFAULT == default_in(SPACE, (2,))
    assert default_in(between_hosts, (2, 2))["hierarchical_allreduce"]
    assert not default_in(fixed, (2,))["response_cache"]


@pytest.mark.parametrize("sizes", [(), GRADIENT_BYTES])
def test_suggestions_are_legal_and_differ(sizes: tuple[int, ...]) -> None:
    """Suggestions differ from each other and from configs at work; the same problem has the same answer."""
    rows = [ledger_row("job-1", DEFAULT, 100.0, "baseline")]
    rows += [ledger_row("job-1", DEFAULT.replace({"cycle_ms": 1.5 * n}), 100.0 - n) for n in range(1, 6)]
    design = task(rows, [BETTER], 3, sizes)

    configs = suggest(design)

    assert 3 == len(configs)
    assert all(SPACE.contains(config) for config in configs)
    assert BETTER not in configs
    assert configs == suggest(design)


def test_before_any_result_suggestions_fill_the_space() -> None:
    """There is no expectation yet, and there are configs to try."""
    configs = suggest(task([], [], 2, ()))

    assert 2 == len(configs)
