# SPDX-License-Identifier: Apache-2.0
"""Tests of the configs to begin with, and of neighbours."""

import numpy as np

from ringtune.tuner import default_config, search_space
from ringtune.tuner.designers.candidates import (
    first_numbers,
    first_points,
    latin_hypercube,
    neighbour,
    neighbours,
    redrawn,
)

SPACE = search_space({}, default_config())


def test_the_points_of_the_start_fill_the_space() -> None:
    """Every sixth of every axis holds one of six points."""
    points = latin_hypercube(6, 4, 7)

    counts = np.stack([np.histogram(points[:, axis], bins=6, range=(0, 1))[0] for axis in range(4)])

    assert (6, 4) == points.shape
    assert np.all(counts == 1)


def test_the_built_in_defaults_come_first() -> None:
    """The rest of the configs are as many as requested, all legal."""
    points = first_points(SPACE, 4, 0)

    assert default_config() == points[0]
    assert 5 == len(points)
    assert all(SPACE.contains(config) for config in points)


def test_first_numbers_leave_switches_and_special_values_at_their_defaults() -> None:
    """The first numbers spread: each quarter of the middle of a range has one of four."""
    configs = first_numbers(SPACE, 4, 0)

    assert default_config() == configs[0]
    assert all(SPACE.contains(config) for config in configs)
    for name in ("response_cache", "chunk_bytes"):
        assert {default_config()[name]} == {config[name] for config in configs}
    cycles_ms = sorted(float(config["cycle_ms"]) for config in configs[1:])
    octaves = np.log2(np.array(cycles_ms) / 0.05) / np.log2(50 / 0.05)  # of the range, as shares
    assert [0, 1, 2, 3] == [int((share - 0.1) / 0.2) for share in octaves]
    assert all(config["fusion_bytes"] != 0 for config in configs)


def test_neighbours_are_legal_and_closer_with_a_smaller_step() -> None:
    """The mean distance of encodings falls with the step."""
    rng = np.random.default_rng(0)
    home = SPACE.encode(default_config())

    def distance(step: float) -> float:
        near = [neighbour(SPACE, default_config(), rng, step) for _ in range(100)]
        assert all(SPACE.contains(config) for config in near)
        return float(np.median([np.linalg.norm(SPACE.encode(config) - home) for config in near]))

    assert distance(0.02) < distance(0.12)


def test_neighbours_differ_and_now_and_then_in_a_switch() -> None:
    """Neighbours are legal; a switch that no small step could turn is turned in some, and stays in most."""
    drawn = neighbours(SPACE, default_config(), np.random.default_rng(0), 200)

    assert 200 == len(drawn)
    assert len(set(drawn)) > 150
    assert all(SPACE.contains(config) for config in drawn)
    turned = [config["response_cache"] != default_config()["response_cache"] for config in drawn]
    assert 0 < sum(turned) < 40


def test_one_or_two_parameters_are_drawn_anew() -> None:
    """The others stay exactly as they are, and each gets its turn."""
    rng = np.random.default_rng(0)
    changed = [
        {name for name, value in redrawn(SPACE, default_config(), rng).items() if value != default_config()[name]}
        for _ in range(200)
    ]

    assert {0, 1, 2} == {len(names) for names in changed}
    assert {parameter.name for parameter in SPACE.free} == set.union(*changed)
