# SPDX-License-Identifier: Apache-2.0
"""Tests of the config as the engine reads it: `auto` by size, layout and memory."""

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import Config
from ringtune.tuner.simulator import Cluster
from ringtune.tuner.simulator.knobs import Algorithm, Knobs
from tests.unit.tuner.simulator.jobs import MIB, config_of, hosts_of

KIB = 1024


@pytest.mark.parametrize(
    ("ranks", "size", "is_registered", "algorithm"),
    [
        (2, 256 * KIB, False, Algorithm.DIRECT),
        (2, 256 * KIB + 4, False, Algorithm.REDUCE_SCATTER_ALLGATHER),
        (4, 16 * KIB, False, Algorithm.DIRECT),
        (4, 16 * KIB + 4, False, Algorithm.REDUCE_SCATTER_ALLGATHER),
        (2, 16 * KIB, True, Algorithm.DIRECT),
        (2, 16 * KIB + 4, True, Algorithm.REGISTERED),
    ],
)
def test_auto_goes_by_size_ranks_and_memory(ranks: int, size: int, is_registered: bool, algorithm: Algorithm) -> None:
    """The bounds are those of the compiled-in table."""
    chosen = Knobs.of(config_of()).algorithm_for(Cluster(1, ranks, 8), size, is_registered=is_registered)

    assert algorithm is chosen


def test_a_named_algorithm_holds_for_every_size() -> None:
    """Inside one host a config may name a row of the registry."""
    knobs = Knobs.of(config_of(allreduce_algorithm="direct"))

    assert Algorithm.DIRECT is knobs.algorithm_for(Cluster(), 64 * MIB, is_registered=True)


@pytest.mark.parametrize(("switch", "algorithm"), [(True, Algorithm.HIERARCHICAL), (False, Algorithm.RING)])
def test_between_hosts_the_switch_decides(switch: bool, algorithm: Algorithm) -> None:
    """The switch decides between hosts of several ranks, whatever the size and the memory; those of one go by host."""
    knobs = Knobs.of(config_of(hierarchical_allreduce=switch))

    assert algorithm is knobs.algorithm_for(hosts_of(2, 2), 4 * KIB, is_registered=True)
    assert Algorithm.HIERARCHICAL is knobs.algorithm_for(hosts_of(2, 1), 4 * KIB, is_registered=True)


def test_the_automatic_chunk_is_larger_between_hosts() -> None:
    """512 KiB in one host, 1 MiB between several; a number is taken as it is."""
    auto, given = Knobs.of(config_of()), Knobs.of(config_of(chunk_bytes=64 * KIB))

    assert [512 * KIB, MIB] == [auto.chunk_for(Cluster(), MIB), auto.chunk_for(hosts_of(2, 2), MIB)]
    assert 64 * KIB == given.chunk_for(hosts_of(2, 2), MIB)


def test_a_config_that_lacks_a_parameter_is_refused() -> None:
    """The message names it."""
    with pytest.raises(ConfigError, match="lacks 'cycle_ms'"):
        Knobs.of(Config({name: value for name, value in config_of().items() if name != "cycle_ms"}))


def test_an_algorithm_that_is_not_simulated_is_refused() -> None:
    """The message lists those that are."""
    with pytest.raises(ConfigError, match="'magic' is not simulated; there are auto, direct, reduce_scatter"):
        Knobs.of(config_of(allreduce_algorithm="magic"))
