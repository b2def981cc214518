# SPDX-License-Identifier: Apache-2.0
"""The policy's numbers: one dataclass, each number with its unit and its reason.

`python -m benchmarks.regret --ablate` shows what each is worth: it runs the policy with one of them off at a time.
`docs/how_it_decides.md` prints this table.
"""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class NumberDoc(NamedTuple):
    """One row of the printed table.

    Attributes:
        name: The field of `Policy`.
        value: Its default.
        unit: Unit of the value.
        reason: Why there is such a number, and why it has this value.
    """

    name: str
    value: float
    unit: str
    reason: str


def _number(value: float, unit: str, reason: str) -> Any:
    return field(default=value, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True)
class Policy:
    """The numbers behind every decision of a tuning run; `policy_numbers` lists them with units and reasons."""

    settle_steps: int = _number(
        2,
        "steps",
        "Skipped after a switch: the step in flight, and one whose caches are cold; a window bears one more.",
    )
    least_window_steps: int = _number(
        5, "steps", "Shortest window: with fewer steps, a single slow one decides the median."
    )
    most_window_steps: int = _number(
        200, "steps", "Longest window: beyond it drift outweighs what noise is averaged out."
    )
    least_window_ms: float = _number(300.0, "ms", "Shorter windows are at the mercy of single scheduler decisions.")
    window_error: float = _number(
        0.01,
        "fraction",
        "Standard error of a window's typical step that its length aims at: below a gain worth a test.",
    )
    window_share: float = _number(
        1 / 20, "of the budget", "Longest window: with longer ones a job of slow steps has no room to try anything."
    )
    coarse_error: float = _number(
        0.15,
        "of the prediction's standard deviation",
        "A config that may be twice as fast or half needs few steps: another config tells more than a longer window.",
    )
    cut_factor: float = _number(
        1.3,
        "of the baseline's step",
        "A window whose steps are slower is cut after three to five: they are a sample, too.",
    )
    void_repeats: int = _number(3, "windows", "A void window is measured again so often.")
    foreign_windows: int = _number(
        4, "windows", "So many in a row with other tensors end the run: the job trains something else now."
    )
    warmup_window_ms: float = _number(100.0, "ms", "Shortest window of the warmup.")
    warmup_window_steps: int = _number(100, "steps", "Longest window of the warmup.")
    stable_windows: int = _number(5, "windows", "Step times are stable when these have no significant slope.")
    most_warmup_windows: int = _number(30, "windows", "Longest warmup: a job that never settles is tuned all the same.")
    warmup_share: float = _number(1 / 8, "of the budget", "Longest warmup under a budget.")
    negligible_drift: float = _number(
        0.01, "ln(step time)", "A slope below it over the stable windows counts as none, however significant."
    )
    baseline_windows: int = _number(
        3, "windows", "Measured before the search: only repeated windows show how much windows of one config differ."
    )
    baseline_every: int = _number(
        5, "samples", "The search measures the baseline again after so many: drift shows, and must not pass for a gain."
    )
    least_configs: int = _number(
        10, "configs", "Measured before a search may end: a model of fewer is sure too soon of what it has not seen."
    )
    least_value: float = _number(
        0.0002, "ln(step time)", "The search ends when one more sample is expected to improve the pick by less."
    )
    patience: int = _number(
        3, "suggestions", "So many in a row must be worth too little: a model of few samples is sure too soon."
    )
    least_gain: float = _number(
        0.01, "fraction", "A challenger that is expected to gain less than this is not worth the steps of a test."
    )
    exploration_grace_s: float = _number(60.0, "s", "The first minute of tuning may cost what it costs.")
    exploration_share: float = _number(
        0.03,
        "of the time",
        "Most that configs which were tried may cost after that, of the budget or of the job so far.",
    )
    planned_share: float = _number(
        0.95, "of the budget", "Part that is planned at the pace so far: the last windows may be slower."
    )
    pace_windows: int = _number(
        5, "windows", "Newest ones whose median is the pace, so that one pause counts for little."
    )
    test_share: float = _number(
        0.25,
        "of the budget",
        "Kept for the adoption test; a search that finds nothing new would leave it too few pairs.",
    )
    test_pairs: int = _number(
        4,
        "pairs",
        "The test's windows are as long as lets so many fit: more pairs tell the noise, and survive a pause.",
    )
    attempts_per_pair: int = _number(
        3, "attempts", "A pair with a void window is measured again; the test gives up after so many times its pairs."
    )
    window_std: float = _number(
        0.008, "ln(step time)", "Prior of what windows of one config differ by beyond the scatter of their steps."
    )
    noise_weight: float = _number(
        2.0, "degrees of freedom", "Weight of that prior: repeated windows and the test's pairs soon outweigh it."
    )
    futility_pairs: int = _number(4, "pairs", "From so many on, a test ends when its upper bound is below zero.")
    early_error: float = _number(
        0.001,
        "probability",
        "Error of one look before the last pair: so small that many looks do not add up (Haybittle 1971).",
    )
    nugget_std: float = _number(
        0.01, "ln(step time)", "Step time jumps between neighbouring configs, as tensors fall into fusion buffers anew."
    )


POLICY = Policy()
"""The numbers in use."""


def policy_numbers() -> list[NumberDoc]:
    """Return every number of `Policy` with its default, its unit and its reason."""
    return [
        NumberDoc(each.name, each.default, each.metadata["unit"], each.metadata["reason"])  # type: ignore[arg-type]
        for each in fields(Policy)
    ]
