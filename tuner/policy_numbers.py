# SPDX-License-Identifier: Apache-2.0
"""Constants of the tuning policy: one dataclass, each field with its unit and its reason.

`python -m benchmarks.regret --ablate` measures the worth of each: it runs the policy with one of them off at a time.
`docs/how_it_decides.md` prints this table.
"""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


class NumberDoc(NamedTuple):
    """Row of the printed table of constants.

    Attributes:
        name: Field of `Policy`.
        value: Default of the field.
        unit: Unit of the value.
        reason: Purpose of the constant and reason for its value.
    """

    name: str
    value: float
    unit: str
    reason: str


def _number(value: float, unit: str, reason: str) -> Any:
    return field(default=value, metadata={"unit": unit, "reason": reason})


@dataclass(frozen=True)
class Policy:
    """Constants behind every decision of a tuning run; `policy_numbers` lists them with units and reasons."""

    settle_steps: int = _number(
        2,
        "steps",
        "Steps skipped after a switch: the one in flight and one with cold caches; a window tolerates one more.",
    )
    least_window_steps: int = _number(
        5, "steps", "Minimum window length: in a shorter window a few slow steps decide the median."
    )
    most_window_steps: int = _number(
        200, "steps", "Maximum window length: in a longer window drift adds more error than averaging removes."
    )
    least_window_ms: float = _number(
        300.0, "ms", "Minimum window duration: a single scheduler decision can dominate a shorter window."
    )
    window_error: float = _number(
        0.01,
        "fraction",
        "Target standard error of a window's typical step, which sets its length: no larger than `least_gain`.",
    )
    window_share: float = _number(
        1 / 20,
        "of the budget",
        "Maximum window length: longer windows would leave a job with slow steps no budget for candidates.",
    )
    coarse_error: float = _number(
        0.15,
        "of the prediction's standard deviation",
        "Target standard error of a candidate's window: an uncertain candidate needs few steps, and another candidate "
        "uses the saved ones better.",
    )
    cut_factor: float = _number(
        1.3,
        "of the baseline's step",
        "Step-time limit of a candidate's window: a slower one is cut early, and its steps still count as a sample.",
    )
    void_repeats: int = _number(3, "windows", "Maximum number of retries of a void window.")
    foreign_windows: int = _number(
        4,
        "windows",
        "Consecutive windows with another tensor set that end the run: the job now trains something else.",
    )
    warmup_window_ms: float = _number(
        100.0, "ms", "Minimum duration of a warmup window, long enough for a usable median step time."
    )
    warmup_window_steps: int = _number(
        100, "steps", "Maximum length of a warmup window, so that a job with short steps leaves warmup soon."
    )
    stable_windows: int = _number(
        5,
        "windows",
        "Newest warmup windows whose medians must show no significant slope before the baseline is measured.",
    )
    most_warmup_windows: int = _number(
        30, "windows", "Maximum length of the warmup: a job whose step times never settle is tuned all the same."
    )
    warmup_share: float = _number(
        1 / 8, "of the budget", "Maximum share of the warmup: the rest is needed for the search and the adoption test."
    )
    negligible_drift: float = _number(
        0.01,
        "ln(step time)",
        "Drift over the stable windows below which warmup ends, even if the slope is significant.",
    )
    baseline_windows: int = _number(
        3,
        "windows",
        "Baseline windows before the search: only repeated windows reveal the noise between windows of one config. "
        "After a single one, a test of two pairs passes up to 10 % of equal challengers; after three, 5 %.",
    )
    baseline_every: int = _number(
        5,
        "samples",
        "Samples between two measurements of the baseline during the search, so that drift is not mistaken for a gain.",
    )
    least_value: float = _number(
        0.0002,
        "ln(step time)",
        "Value of information below which one more sample is not worth its steps.",
    )
    late_value: float = _number(
        0.001,
        "ln(step time)",
        "The same in the second half of the search's budget, while no config is expected to gain `least_gain` and more "
        "than a standard deviation: on noisy steps small values never end, and seldom lead to an adoption.",
    )
    patience: int = _number(
        3,
        "suggestions",
        "Consecutive suggestions of such a value that end the search: a single low value of a model of few "
        "samples is weak evidence.",
    )
    least_gain: float = _number(
        0.01, "fraction", "Expected gain below which a challenger is not worth the steps of an adoption test."
    )
    feared_factor: float = _number(
        1.0,
        "of the baseline's step",
        "Step time of a candidate that must not overdraw the exploration budget, although its window is cut at once; "
        "1: none is feared. A tuner that was not asked for takes 4: no fusion between hosts takes 3 to 5.",
    )
    exploration_grace_s: float = _number(
        60.0, "s", "Time from the start of tuning in which the cost of exploration is not limited."
    )
    exploration_share: float = _number(
        0.03,
        "of the time",
        "Maximum loss to tried configs after the grace period, as a share of the budget or of the job's time so far, "
        "whichever is longer.",
    )
    planned_share: float = _number(
        0.95, "of the budget", "Share of the budget that is planned at the pace so far: the last windows may be slower."
    )
    pace_windows: int = _number(
        5, "windows", "Newest windows whose median is the pace; a median is robust against a single pause."
    )
    test_share: float = _number(
        0.25,
        "of the budget",
        "Share reserved for the adoption test: without it a long search would leave too few pairs to decide.",
    )
    test_pairs: int = _number(
        4,
        "pairs",
        "Pairs that must fit into the steps left, which sets the test's window length: several pairs estimate the "
        "noise and survive a pause.",
    )
    attempts_per_pair: int = _number(
        3,
        "attempts",
        "Maximum attempts per pair on average: a pair with a void window is repeated, and a job that keeps pausing "
        "must not test for ever.",
    )
    window_std: float = _number(
        0.008,
        "ln(step time)",
        "Prior standard deviation between windows of one config, beyond the scatter of their steps.",
    )
    noise_weight: float = _number(
        2.0,
        "degrees of freedom",
        "Weight of the prior `window_std`, so low that repeated windows and the test's pairs soon outweigh it.",
    )
    futility_pairs: int = _number(
        4, "pairs", "Pairs after which the test stops for futility, once the upper bound of the gain is below zero."
    )
    early_error: float = _number(
        0.001,
        "probability",
        "Error probability of each look before the last pair, so small that repeated looks hardly add to the test's "
        "error (Haybittle 1971).",
    )


POLICY = Policy()
"""Constants in use."""


def policy_numbers() -> list[NumberDoc]:
    """Return every constant of `Policy` with its default, its unit and its reason."""
    return [
        NumberDoc(each.name, each.default, each.metadata["unit"], each.metadata["reason"])  # type: ignore[arg-type]
        for each in fields(Policy)
    ]
