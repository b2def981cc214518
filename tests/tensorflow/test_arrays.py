# SPDX-License-Identifier: Apache-2.0
"""Collectives on numpy arrays in real jobs, without any framework."""

import pytest

from tests.tensorflow.launching import assert_all_right, run


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_operation_on_arrays_is_right(ranks: int) -> None:
    """All operations of all dtypes and awkward shapes give what a local reference gives."""
    assert_all_right(run(ranks, "arrays"), ranks)
