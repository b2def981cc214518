# SPDX-License-Identifier: Apache-2.0
"""The place that torch tells, by a real store."""

import threading

import pytest
from torch import distributed

from ringtune.errors import CollectiveTimeout, ConfigError
from ringtune.meeting.bootstrap import find_place
from ringtune.meeting.bootstrap.exchange import arrange
from ringtune.meeting.bootstrap.torch_store import StoreExchange
from ringtune.meeting.rendezvous.place import Place


def test_ranks_meet_through_a_store() -> None:
    """All have one address and one key; rank 0 listens already."""
    store = distributed.HashStore()  # type: ignore[attr-defined]
    found: dict[int, Place] = {}

    def run(rank: int) -> None:
        place = Place(rank, 3, 0, "test")
        found[rank] = arrange(place, StoreExchange(store, place, 10))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len({(place.address, place.job_key) for place in found.values()})
    assert found[0].listener is not None
    found[0].listener.close()


def test_a_rank_that_does_not_come_is_named() -> None:
    """Rank 0 names the missing rank; the other ranks name rank 0."""
    store = distributed.HashStore()  # type: ignore[attr-defined]

    for rank, missing in ((0, 1), (1, 0)):
        place = Place(rank, 2, 0, "test")
        with pytest.raises(CollectiveTimeout, match=f"rank {missing} did not come"):
            arrange(place, StoreExchange(store, place, 0.2))


def test_an_agents_store_that_is_not_there_is_an_error() -> None:
    """Host and port are named, and the variables that told them."""
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}

    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:9 \(MASTER_ADDR, MASTER_PORT\)"):
        find_place({**environ, "TORCHELASTIC_USE_AGENT_STORE": "True"}, 0, 0.5)


@pytest.mark.parametrize(("variable", "value"), [("RANK", "2"), ("WORLD_SIZE", "x"), ("MASTER_PORT", "99999999")])
def test_a_malformed_variable_is_named(variable: str, value: str) -> None:
    """The error has the variable's value and the allowed values."""
    environ = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "9", "TORCHELASTIC_USE_AGENT_STORE": "True"}

    with pytest.raises(ConfigError, match=f"{variable}='{value}' is not allowed; allowed"):
        find_place({**environ, variable: value}, 0, 0.5)
