# SPDX-License-Identifier: Apache-2.0
"""Programs that call `horovod.run` need no other arguments."""

import pytest

from ringtune.run_function import check_controller, check_hosts, number_of_ranks


@pytest.mark.parametrize(("np", "num_proc"), [(3, None), (None, 3), (3, 3)])
def test_the_number_of_ranks_has_two_names(np: int | None, num_proc: int | None) -> None:
    """Either, or both alike."""
    assert 3 == number_of_ranks(np, num_proc)


@pytest.mark.parametrize(("np", "num_proc"), [(None, None), (2, 3)])
def test_no_number_of_ranks_or_two_are_refused(np: int | None, num_proc: int | None) -> None:
    """The message shows both."""
    with pytest.raises(ValueError, match=f"np={np}, num_proc={num_proc}"):
        number_of_ranks(np, num_proc)


def test_one_controller_is_without_effect_and_two_are_refused() -> None:
    """As in Horovod, where at most one may be chosen."""
    check_controller(use_gloo=True, use_mpi=None)
    check_controller(use_gloo=False, use_mpi=True)

    with pytest.raises(ValueError, match="use_gloo=True, use_mpi=True"):
        check_controller(use_gloo=True, use_mpi=True)


def test_this_machine_may_be_named_as_a_host() -> None:
    """A host that would get no rank does not matter."""
    check_hosts("localhost:2", 2)
    check_hosts("localhost:2,elsewhere.invalid:2", 2)


def test_other_hosts_are_refused_with_the_command_that_takes_them() -> None:
    """`ringtune run -H` starts ranks there."""
    with pytest.raises(ValueError, match=r"elsewhere.invalid is another; .* ringtune run -np 3 -H localhost:2,elsew"):
        check_hosts("localhost:2,elsewhere.invalid:2", 3)
    with pytest.raises(ValueError, match="more than the 2 slots"):
        check_hosts("localhost:2", 3)
