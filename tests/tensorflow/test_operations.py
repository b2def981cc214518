# SPDX-License-Identifier: Apache-2.0
"""The operations of the TensorFlow front end in real jobs."""

import pytest

from tests.tensorflow.launching import assert_all_right, run


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_operation_is_right(ranks: int) -> None:
    """Eagerly and in graphs, results and gradients are those of a local reference."""
    assert_all_right(run(ranks, "operations"), ranks)


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
def test_horovods_names_are_here_and_mean_the_same(ranks: int) -> None:
    """Each name exists or names its substitute; facts as tensors, joint batch norm, local layers, best models."""
    assert_all_right(run(ranks, "horovod_names"), ranks)
