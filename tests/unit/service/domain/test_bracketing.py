# SPDX-License-Identifier: Apache-2.0
"""Windows between the baseline windows next to them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ringtune.service.domain.bracketing import Gains, OpenWindows
from ringtune.service.store.summary_rows import JobSummary

steps = st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.integers(-(10**9), 10**9)), max_size=40)


def test_a_window_is_compared_with_the_faster_and_the_slower_neighbour() -> None:
    """Two windows of a config between baselines of 10 and 14, in ln."""
    windows = OpenWindows()

    windows.close(10)
    windows.wait("a", 9)
    windows.wait("a", 8)
    gains = windows.close(14)

    assert {"a": Gains(compared=2, log_gain_low_e9=3, log_gain_high_e9=11)} == gains
    assert {} == windows.close(11)


def test_a_window_without_a_neighbour_on_each_side_waits_or_is_left_out() -> None:
    """Before the first baseline window there is none to compare with; after the last the next is awaited."""
    windows = OpenWindows()

    windows.wait("a", 5)
    assert {} == windows.close(10)
    windows.wait("a", 9)

    assert {"a": [1, 9]} == windows.waiting


@given(steps, st.integers(0, 40))
def test_it_does_not_matter_where_a_transaction_ends(told: list[tuple[str, int]], cut: int) -> None:
    """The row holds all that is needed between two transactions."""

    def gains_of(parts: list[list[tuple[str, int]]]) -> list[Any]:
        found, kept = [], OpenWindows().text()
        for part in parts:
            windows = OpenWindows.from_row(JobSummary(study_id="s", job_id="j", config_digest="", open_windows=kept))
            for digest, step in part:
                if digest:
                    windows.wait(digest, step)
                else:
                    found.append(windows.close(step))
            kept = windows.text()
        return found

    assert gains_of([told]) == gains_of([told[:cut], told[cut:]])
