# SPDX-License-Identifier: Apache-2.0
"""The report on the knobs of a run: the numbers of `ringtune review`, in few lines, and warnings of idle knobs."""

import io
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.tuner import CategoryParameter, Config, RunSettings, SearchSpace, VoidReason, make_designer, open_log
from ringtune.tuner.logs.records import Record
from ringtune.tuner.review import RunReview, analyse, render_review, review_log, review_run, words
from ringtune.tuner.review.sensitivity import MATTERS
from ringtune.tuner.testing import SyntheticTarget
from ringtune.tuning.command.knob_report import KnobSetting, RunRecorder, WhyUnvaried, knob_rows, unvaried
from tests.unit.tuner.recording import tune


def space_of(count: int, fixed: tuple[str, ...] = ()) -> SearchSpace:
    """Return a space of knobs k0, k1, ... with the values 1, 2 and 4."""
    knobs = [CategoryParameter(f"k{i}", ("1", "2", "4"), "1") for i in range(count)]
    return SearchSpace(knobs, dict.fromkeys(fixed, "1"))


class OneMatters(SyntheticTarget):
    """A job whose steps are shorter the higher k0 is; configs with another k1 than 1 fail if `fails` is set."""

    def __init__(self, space: SearchSpace, *, fails: bool = False) -> None:
        super().__init__(surface=self._log_ms, baseline=space.default(), space=space, seed=1)
        self._fails = fails

    def _log_ms(self, config: Config) -> float:
        return math.log(20.0) - 0.4 * math.log2(float(str(config["k0"])))

    def _void_reason(self) -> VoidReason | None:
        return VoidReason.LAUNCH_FAILED if self._fails and self.applied[-1]["k1"] != "1" else None


def recorded(target: SyntheticTarget, path: Path | None = None, samples: int = 12) -> RunReview:
    """Return the review of a run of launches from memory; its log is written as well."""
    recorder = RunRecorder(open_log(path))
    settings = RunSettings(run_id="a", max_samples=samples, fixed_windows=True, warmup_steps=0, adoption_pairs=3)
    designer = make_designer("random", target.space(), 2)
    tune(target, designer, settings, recorder)
    recorder.close()
    return review_run(recorder.run)


def test_effects_are_those_of_the_review(tmp_path: Path) -> None:
    """One run, by its records in memory and by its log: the same numbers, and the review prints them."""
    space = space_of(4)

    run = recorded(OneMatters(space), tmp_path / "log")
    rows = knob_rows(run, KnobSetting(space, {}))

    review = review_log(tmp_path / "log")
    effects = analyse(review.runs[-1]).sensitivities
    assert effects == analyse(run).sensitivities
    (matters,) = (item for item in effects if item.finding == MATTERS)
    assert rows[0][0] == MATTERS
    assert rows[0][1].startswith(f"k0: {words.interval(matters.effect)}, best 4, worst 1; 3 of 3 values tried")
    stream = io.StringIO()
    render_review(review, Console(file=stream, width=200))
    for item in effects:
        line = [line for line in stream.getvalue().splitlines() if line.startswith(f"{item.name} ")][-1]
        interval = words.short_interval(item.effect)
        assert interval in line
        assert interval in "".join(text for _, text in rows) or item is matters


def test_thirty_knobs_share_few_lines() -> None:
    """Every knob is named; only the one that matters has a line of its own."""
    space = space_of(30)

    rows = knob_rows(recorded(OneMatters(space), samples=40), KnobSetting(space, {}))

    assert {f"k{i}" for i in range(30)} <= set(
        "".join(text for _, text in rows).replace(":", " ").replace(",", " ").split()
    )
    assert 4 > len(rows)


def test_too_few_launches_give_counts_alone() -> None:
    """Without a model no knob is said to matter."""
    space = space_of(1)
    run = recorded(OneMatters(space), samples=1)
    one_each = [next(s for s in run.tried if s.config == config) for config in {s.config for s in run.tried}]

    rows = knob_rows(replace(run, tried=tuple(one_each)), KnobSetting(space, {}))

    assert [("knobs", "effects are not known, too few launches count; values tried: k0 2")] == rows


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("k1", WhyUnvaried.HAS_FAILED),
        ("k2", WhyUnvaried.IS_SET),
        ("k4", WhyUnvaried.IS_IDLE),
        ("one", WhyUnvaried.HAS_ONE_VALUE),
    ],
)
def test_a_knob_that_was_never_varied_is_named_with_the_reason(name: str, why: WhyUnvaried) -> None:
    """Set by the user, failed in every launch, without effect, or with a single value; --only (k3) is no fault."""
    parameters = [*space_of(5).parameters, CategoryParameter("one", ("a",), "a")]
    space = SearchSpace(parameters, {"k2": "1", "k3": "1"})
    setting = KnobSetting(space, {"k2": "K2"}, lambda config: config.replace({"k4": "1"}))

    run = recorded(OneMatters(space, fails=True))

    found = unvaried(run, setting)
    assert {"k1", "k2", "k4", "one"} == set(found)
    assert why is found[name]
    assert ("warning", f"never varied: {name} ({why.value})") in knob_rows(run, setting)


def test_a_search_that_ended_too_soon_is_named() -> None:
    """A knob at its default in every launch needs more launches, or fewer knobs beside it."""
    space = space_of(2)
    run = recorded(OneMatters(space))
    kept = tuple(sample for sample in run.tried if sample.config["k1"] == "1")

    found = unvaried(replace(run, tried=kept), KnobSetting(space, {}))

    assert {"k1": WhyUnvaried.WAS_NOT_TRIED} == found


def test_a_log_that_fails_does_not_cost_the_report() -> None:
    """Records are kept before they are written."""

    class Full:
        def write(self, record: Record) -> None:
            raise OSError("no space left")

        def close(self) -> None:
            pass

    recorder = RunRecorder(Full())

    tune(OneMatters(space_of(2)), None, RunSettings(run_id="a", max_samples=2, warmup_steps=0), recorder)

    assert recorder.run.samples
    assert recorder.run.result is not None
