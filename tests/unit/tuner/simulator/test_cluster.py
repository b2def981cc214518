# SPDX-License-Identifier: Apache-2.0
"""Tests of clusters, links, machines and noise as descriptions: their meaning and their refusals."""

from collections.abc import Callable

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner.simulator import Cluster, Link, Noise, SimulatedMachine, parse_link


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("25gbit", 3.125e9), ("100mbit", 1.25e7), ("2.5gbit", 3.125e8), (" 1 GBit/s ", 1.25e8), ("400gbit", 5e10)],
)
def test_a_rate_in_words_is_read(text: str, bytes_per_s: float) -> None:
    """Bits per second become bytes per second."""
    assert bytes_per_s == parse_link(text).bytes_per_s


@pytest.mark.parametrize("text", ["", "fast", "25", "25gbyte", "-1gbit", "0gbit", "999kbit", "1e9bit", "11tbit"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    """The message shows examples of a rate."""
    with pytest.raises(ConfigError, match="such as 100mbit or 25gbit"):
        parse_link(text)


@pytest.mark.parametrize("text", ["25gbit", "100mbit", "2.5gbit", "1tbit"])
def test_a_link_is_named_as_it_was_read(text: str) -> None:
    """The name reads as the same rate."""
    assert text == parse_link(text).name


def test_a_cluster_counts_its_ranks() -> None:
    """The world is hosts times ranks; the layout has one number per host."""
    cluster = Cluster(3, 2, 4)

    assert 6 == cluster.world_size
    assert (2, 2, 2) == cluster.layout


def test_threads_share_cores_only_where_they_outnumber_them() -> None:
    """Four ranks with two threads each on four cores: two to a core; one each: none shares."""
    cluster = Cluster(1, 4, 4)

    assert 2.0 == cluster.threads_per_core(2.0)
    assert 1.0 == cluster.threads_per_core(1.0) == cluster.threads_per_core(0.25)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Cluster(0, 2, 2),
        lambda: Cluster(1, 257, 2),
        lambda: Cluster(1, 2, 0),
        lambda: Link(0.0),
        lambda: Link(float("inf")),
        lambda: Link(1e9, -1.0),
        lambda: SimulatedMachine(copy_bytes_per_s=0.0),
        lambda: SimulatedMachine(sync_us=-1.0),
        lambda: SimulatedMachine(wake_us=float("nan")),
        lambda: Noise(step=-0.1),
        lambda: Noise(late_chance=1.5),
        lambda: Noise(pause_chance=-0.1),
        lambda: Noise(late_factor=0.5),
        lambda: Noise(drift_s=0.0),
    ],
)
def test_what_cannot_be_is_refused(build: Callable[[], object]) -> None:
    """Counts, speeds, times and chances out of range raise an error that gives the range."""
    with pytest.raises(ConfigError, match="give|allowed"):
        build()


def test_times_may_be_zero() -> None:
    """A machine on which waking is free is legal."""
    assert 0.0 == SimulatedMachine(wake_us=0.0, cache_bytes=0.0).wake_us
