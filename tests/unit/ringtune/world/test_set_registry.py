# SPDX-License-Identifier: Apache-2.0
"""Process sets before they are part of a job; their work in one is tested with real ranks."""

import numpy as np
import pytest

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set


def test_ranks_are_sorted() -> None:
    """The order in which they are named does not count."""
    assert [0, 2, 5] == ProcessSet([5, 0, 2]).ranks
    assert [0, 1] == ProcessSet(list(np.array([1, 0]))).ranks
    assert [1, 2] == ProcessSet(range(1, 3)).ranks
    assert [1, 2] == ProcessSet(reversed(range(1, 3))).ranks
    assert [0, 3] == ProcessSet(rank for rank in (3, 0)).ranks


@pytest.mark.parametrize("ranks", [[0, 0], [-1], ["0"], [1.0], [True], [None]])
def test_what_is_no_set_of_ranks_is_refused(ranks: list[int]) -> None:
    """Twice the same, negative, or no number at all."""
    with pytest.raises(ConfigError, match="ProcessSet"):
        ProcessSet(ranks)


@pytest.mark.parametrize("process_set", [ProcessSet([0, 1]), global_process_set])
def test_a_set_outside_of_a_job_has_no_answers(process_set: ProcessSet) -> None:
    """A set outside of a job gives None as in Horovod, and an error where a world is needed."""
    assert process_set.process_set_id is None
    assert (None, None, None) == (process_set.included(), process_set.rank(), process_set.size())
    for ask in (lambda: process_set.world, lambda: process_set.rank_of(0)):
        with pytest.raises(ConfigError, match="not part of the running job"):
            ask()


def test_sets_need_a_world() -> None:
    """Before init() no set can be added or removed."""
    for call in (lambda: add_process_set([0]), lambda: remove_process_set(global_process_set)):
        with pytest.raises(ConfigError, match=r"call init\(\) first"):
            call()
