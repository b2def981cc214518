# SPDX-License-Identifier: Apache-2.0
"""Tests of the phrase that says whose samples a search begins with."""

import pytest

from ringtune.tuner.priors.origins import origins_text


@pytest.mark.parametrize(
    ("origins", "text"),
    [
        (["a finished run"], "a finished run"),
        (["a finished run", "3 unfinished runs"], "a finished run and 3 unfinished runs"),
        (["a finished run"] * 2, "2 finished runs"),
        (["a finished run of another model"], "a finished run of another model, as a weak prior"),
        (["a finished run of another model"] * 2, "2 finished runs of other models, as a weak prior"),
        (
            ["an unfinished run of another model and another hardware"] * 2,
            "2 unfinished runs of other models and other hardware, as a weak prior",
        ),
        (
            ["an unfinished run", "a finished run of another model"],
            "an unfinished run and a finished run of another model",
        ),
        (["a finished run with 3 ranks in place of 2"] * 2, "2 finished runs with 3 ranks in place of 2"),
    ],
)
def test_equal_runs_are_counted(origins: list[str], text: str) -> None:
    """No origin is named twice, and another model's samples are marked as such."""
    assert text == origins_text(origins)
