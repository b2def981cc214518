# SPDX-License-Identifier: Apache-2.0
"""The demo's summary gives, from logs alone, the decision, its reason, and its cost."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from demo import RUNS
from rich.console import Console

from demo_summary import DemoOutcome, complaint, render, speed_lines

BASELINE = {"fusion_bytes": 0, "cycle_ms": 20.0, "response_cache": True, "chunk_bytes": "auto"}
CHOSEN = {**BASELINE, "fusion_bytes": 4 * 1024 * 1024, "cycle_ms": 0.5}
REPORT = {"metrics": {"accuracy": 0.965}, "steps": 1234, "seconds": 60.0, "world_size": 2}
RUN: dict[str, Any] = {
    "type": "run", "t_s": 0.0, "run_id": "r", "schema": 1, "unix_time_s": 1.0, "model_name": None, "key": {},
    "layout": {}, "versions": {}, "search_space": {}, "fixed": {}, "baseline": BASELINE, "seed": 0, "steps_budget": {},
}  # fmt: skip


def sample(config: dict[str, Any], median_ms: float) -> dict[str, Any]:
    """Return a valid record of the adoption phase."""
    step_ms = {"median": median_ms, "mad": 0.1, "mean": median_ms}
    return {
        "type": "sample", "t_s": 1.0, "run_id": "r", "trial_id": 0, "window": 0, "phase": "adoption", "epoch": 1,
        "config": config, "score_bytes_per_s": 1e8, "step_ms": step_ms, "steps": 10, "valid": True, "reason": None,
    }  # fmt: skip


def ending(verdict: str, *, adopted: bool) -> list[dict[str, Any]]:
    """Return the two records that end a run."""
    speedup, ci_low, ci_high = (0.25, 0.2, 0.3) if adopted else (None, None, None)
    config, payback = (CHOSEN, 400) if adopted else (BASELINE, None)
    common = {"t_s": 40.0, "run_id": "r", "speedup": speedup}
    decided: dict[str, Any] = {
        "type": "adoption",
        "pairs": [{"baseline_step_ms": 25.0, "challenger_step_ms": 20.0}] if adopted else [],
        "ci_low": ci_low,
        "ci_high": ci_high,
        "verdict": verdict,
    }
    result = {"type": "result", "config": config, "adopted": adopted, "cost_s": 2.5, "payback_steps": payback}
    return [common | decided, common | result]


def outcome(tmp_path: Path, records: list[dict[str, Any]], title: str = "a job") -> DemoOutcome:
    """Write a log and read it back."""
    log = tmp_path / "tuning.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return DemoOutcome.read(title, log, REPORT)


def rendered(tmp_path: Path, records: list[dict[str, Any]]) -> str:
    """Write a log, summarize it, and return the text of a terminal."""
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    render([outcome(tmp_path, records)], console, seconds=99.0)
    return screen.getvalue()


def test_an_adopted_config_is_shown_beside_the_baseline(tmp_path: Path) -> None:
    """Both values of a changed knob, the verdict, both step times, the price and the accuracy are there."""
    samples = [sample(BASELINE, 25.0), sample(CHOSEN, 20.0)]

    text = rendered(tmp_path, [RUN, *samples, *ending("adopted: +25.0% faster", adopted=True)])

    for expected in (
        "0 (off)", "4 MiB", "20 ms", "0.5 ms", "changed", "adopted: +25.0% faster",
        "25.0 ms under the baseline, 20.0 ms under the adopted settings",
        "cost 2.5 s", "paid back after 400 further steps", "96.5% of unseen images", "tuning.jsonl",
    ):  # fmt: skip
        assert expected in text


def test_a_cycle_that_is_longer_than_a_step_is_explained(tmp_path: Path) -> None:
    """A newcomer wonders why waiting for longer should be faster; a short one needs no word."""
    records = [RUN, sample(BASELINE, 25.0), sample(CHOSEN, 20.0), *ending("adopted: +25.0 %", adopted=True)]

    short, long = (
        rendered(tmp_path, records),
        rendered(tmp_path, json.loads(json.dumps(records).replace("0.5", "50.0"))),
    )

    assert "a round begins as soon as" not in short
    assert "a round begins as soon as" in long


def test_keeping_default_gives_its_reason(tmp_path: Path) -> None:
    """A run without a test shows the verdict, no step times and no payback."""
    text = rendered(tmp_path, [RUN, *ending("keeping default: no config is expected to gain", adopted=False)])

    assert "keeping default: no config is expected to gain" in text
    assert "changed" not in text
    assert "paid back" not in text


def test_the_last_lines_compare_default_tuned_and_plain_ddp() -> None:
    """Medians, and a ratio with its interval for each claim; where the default was kept there is no tuned figure."""
    tuned = speed_lines({"default": [40.0, 41.0, 39.0], "tuned": [50.0, 51.0, 49.0], "ddp": [30.0, 90.0, 20.0]})
    kept = speed_lines({"default": [40.0, 42.0], "tuned": [], "ddp": [50.0, 53.0]})

    assert tuned[0].endswith("default 40.0 steps/s, tuned 50.0 steps/s, plain DDP (Gloo) 30.0 steps/s")
    assert tuned[1].startswith("tuned against default: +25.0% (90 % interval +2")
    assert tuned[1].endswith("faster")
    assert tuned[2].endswith("no difference is shown")
    assert kept[1].startswith("default against plain DDP (Gloo): -20.4% (90 % interval -2")
    assert kept[1].endswith("slower")


def test_one_round_compares_nothing() -> None:
    """An interval needs two."""
    lines = speed_lines({"default": [40.0], "tuned": [], "ddp": [30.0]})

    assert "default against plain DDP (Gloo): not compared, 1 round shows nothing" == lines[-1]


def test_headings_fit_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """Neither the rule above a job nor the title of its panel ends in an ellipsis."""
    screen = io.StringIO()
    console = Console(file=screen, width=80)
    for number, run in enumerate(RUNS, start=1):
        console.rule(f"[bold]{number} of {len(RUNS)}: {run.title}")
    render([outcome(tmp_path, [RUN, sample(BASELINE, 25.0)], run.title) for run in RUNS], console, seconds=9.0)

    text = screen.getvalue()
    for number, run in enumerate(RUNS, start=1):
        assert f" {number} of {len(RUNS)}: {run.title} " in text
        assert f" {number}. {run.title} " in text


def test_an_unfinished_run_is_said_to_be_unfinished(tmp_path: Path) -> None:
    """A job that ended before its tuner is summarized without a decision or a price."""
    text = rendered(tmp_path, [RUN, sample(BASELINE, 25.0)])

    assert "unfinished" in text
    assert "Price" not in text


def test_runs_that_did_not_end_are_named_with_what_to_do(tmp_path: Path) -> None:
    """The sentence names their number, their titles and the budget."""
    ended = outcome(tmp_path, [RUN, *ending("keeping default", adopted=False)], "one that ended")
    cut = outcome(tmp_path, [RUN, sample(BASELINE, 25.0)], "one that was cut")

    assert [] == complaint([ended, ended], 150.0)
    (text,) = complaint([ended, cut], 150.0)
    for expected in ("1 of 2 tuning runs", "150 s", "'one that was cut'", "run the demo again"):
        assert expected in text
    assert "one that ended" not in text


def test_a_log_without_a_run_is_an_error(tmp_path: Path) -> None:
    """The message asks whether the tuner was on."""
    with pytest.raises(ValueError, match="was AUTOTUNE=1 set"):
        rendered(tmp_path, [])
