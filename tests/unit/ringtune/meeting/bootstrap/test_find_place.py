# SPDX-License-Identifier: Apache-2.0
"""Finding this process's place from the environment alone: the launchers, their order, and the refusals."""

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError
from ringtune.meeting.bootstrap import find_place
from ringtune.meeting.rendezvous.address import Address, bound_address, listen

EXPLICIT = {
    "RINGTUNE_RANK": "1",
    "RINGTUNE_WORLD_SIZE": "2",
    "RINGTUNE_RENDEZVOUS": "unix:@job-1",
    "RINGTUNE_JOB_KEY": "ab" * 32,
}


def test_an_empty_environment_is_a_world_of_one() -> None:
    """A script without a launcher trains alone."""
    place = find_place({}, 0, 1.0)

    assert (0, 1) == (place.rank, place.world_size)


def test_explicit_variables_come_first() -> None:
    """The explicit variables hold even beside those of other launchers."""
    leftovers = {"WORLD_SIZE": "8", "PMI_SIZE": "8", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8"}

    place = find_place({**EXPLICIT, **leftovers}, 0, 1.0)

    assert (1, 2) == (place.rank, place.world_size)
    assert b"\xab" * 32 == place.job_key


def test_each_generation_meets_elsewhere() -> None:
    """A repeated init cannot run into the sockets of the one before."""
    addresses = {find_place(EXPLICIT, generation, 1.0).address for generation in range(3)}

    assert 3 == len(addresses)


def test_a_tcp_address_is_taken_as_it_is() -> None:
    """The port is the user's choice; generations are told apart when ranks greet each other."""
    place = find_place({**EXPLICIT, "RINGTUNE_RENDEZVOUS": "tcp://10.77.0.1:4000"}, 1, 1.0)

    assert Address("tcp", "10.77.0.1", 4000) == place.address


def test_the_key_is_not_shown() -> None:
    """A place that is printed by accident does not tell the key."""
    place = find_place(EXPLICIT, 0, 1.0)

    assert "abab" not in repr(place)
    assert "\\xab" not in repr(place)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"RINGTUNE_RANK": "2"}, "RINGTUNE_RANK='2'"),
        ({"RINGTUNE_RANK": "-1"}, "RINGTUNE_RANK='-1'"),
        ({"RINGTUNE_RANK": "one"}, "RINGTUNE_RANK='one'"),
        ({"RINGTUNE_WORLD_SIZE": "0"}, "RINGTUNE_WORLD_SIZE='0'"),
        ({"RINGTUNE_WORLD_SIZE": "100000"}, "RINGTUNE_WORLD_SIZE='100000'"),
        ({"RINGTUNE_RENDEZVOUS": "http://host:1"}, "RINGTUNE_RENDEZVOUS='http://host:1'"),
        ({"RINGTUNE_RENDEZVOUS": "tcp://host:0"}, "RINGTUNE_RENDEZVOUS='tcp://host:0'"),
        ({"RINGTUNE_RENDEZVOUS": "unix:@" + "x" * 200}, "RINGTUNE_RENDEZVOUS"),
        ({"RINGTUNE_JOB_KEY": "secret"}, "RINGTUNE_JOB_KEY is not allowed"),
        ({"RINGTUNE_JOB_KEY": "ab"}, "at least 32 hexadecimal digits"),
    ],
)
def test_a_bad_variable_is_named_with_its_range(changes: dict[str, str], word: str) -> None:
    """Each explicit variable is checked before anything is opened."""
    with pytest.raises(ConfigError) as caught:
        find_place({**EXPLICIT, **changes}, 0, 1.0)

    assert word in str(caught.value)
    assert "allowed" in str(caught.value)


def test_a_missing_variable_is_named() -> None:
    """Half of the explicit variables are not enough."""
    with pytest.raises(ConfigError, match=r"RINGTUNE_WORLD_SIZE=\(not set\)"):
        find_place({"RINGTUNE_RANK": "0"}, 0, 1.0)


def test_an_unknown_launch_of_several_ranks_is_refused() -> None:
    """WORLD_SIZE without a way to meet is an error and not a world of one."""
    with pytest.raises(ConfigError, match="WORLD_SIZE='4'"):
        find_place({"RANK": "0", "WORLD_SIZE": "4"}, 0, 1.0)


def test_an_address_book_that_nobody_serves_is_an_error_at_the_limit() -> None:
    """A rank whose launcher is gone does not wait for ever."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        port = bound_address(listener).port

    with pytest.raises(CollectiveTimeout, match="address book"):
        find_place({**EXPLICIT, "RINGTUNE_RENDEZVOUS": f"book://127.0.0.1:{port}"}, 0, 0.2)
