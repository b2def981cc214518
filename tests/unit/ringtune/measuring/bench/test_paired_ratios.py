# SPDX-License-Identifier: Apache-2.0
"""The sign test's interval."""

import pytest

from ringtune.measuring.bench.paired_ratios import Ratio, paired_ratio


def test_six_pairs_span_all_ratios() -> None:
    """Fewer than all six would be below 95 %."""
    assert Ratio(3.5, 1.0, 6.0) == paired_ratio([1, 2, 3, 4, 5, 6], [1] * 6)


def test_more_pairs_leave_the_ends_out() -> None:
    """The interval of 20 pairs is from the 6th to the 15th: Conover's table A3 has 5 below at p = 0.021."""
    assert Ratio(10.5, 6.0, 15.0) == paired_ratio(list(range(1, 21)), [1] * 20)


def test_five_pairs_have_no_interval() -> None:
    """Said with how many it takes."""
    with pytest.raises(ValueError, match=r"5 pairs have no interval of 95%; measure at least 6"):
        paired_ratio([1] * 5, [1] * 5)
