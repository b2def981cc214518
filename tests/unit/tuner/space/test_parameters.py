# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine's parameter table."""

import pytest

from ringtune.tuner import ENGINE_PARAMETERS, SpaceError, default_config, search_space, tunable_names
from ringtune.tuner.space.parameters import pinned_by_layout

ONE_HOST = {"connections": 1, "wire": "exact"}
NO_SKEW = {"skew": False}
FLAT = {"hierarchical_allreduce": False, "hierarchical_allgather": False, "nccl_hierarchical": False, **NO_SKEW}


def test_the_default_config_is_the_documented_one() -> None:
    """A job without settings runs with these values."""
    expected = {
        "fusion_bytes": 64 << 20,
        "cycle_ms": 1.0,
        "hierarchical_allreduce": False,
        "hierarchical_allgather": False,
        "response_cache": True,
        "allreduce_algorithm": "auto",
        "chunk_bytes": "auto",
    }

    assert expected.items() <= default_config().items()


@pytest.mark.parametrize(
    ("ranks_per_host", "is_hierarchical"),
    [((1,), False), ((4,), False), ((1, 1), False), ((1, 2), True), ((2, 2), True)],
)
def test_the_default_reduces_inside_hosts_where_that_acts(
    ranks_per_host: tuple[int, ...], is_hierarchical: bool
) -> None:
    """Several hosts, one of them with several ranks; no other default depends on the layout."""
    default = default_config(ranks_per_host)

    assert default_config().replace({"hierarchical_allreduce": is_hierarchical}) == default
    assert default.replace(pinned_by_layout(ranks_per_host)) == default


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("fusion_bytes", (0, 64 << 10, 256 << 20)),
        ("cycle_ms", (0.05, 50.0)),
        ("chunk_bytes", ("auto", 16 << 10, 4 << 20)),
    ],
)
def test_bounds_are_the_documented_ones(name: str, allowed: tuple[object, ...]) -> None:
    """Special values and both ends are allowed."""
    parameter = next(parameter for parameter in ENGINE_PARAMETERS if parameter.name == name)

    assert list(allowed) == [parameter.check(value) for value in allowed]


def test_on_one_host_only_what_can_act_is_free() -> None:
    """The hierarchical switches are pinned, and the algorithm to its value."""
    space = search_space({}, default_config())

    assert ("fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes") == tuple(p.name for p in space.free)
    pinned = {"hierarchical_allreduce": False, "hierarchical_allgather": False, "allreduce_algorithm": "auto"}
    assert pinned.items() <= space.fixed.items()


def test_algorithms_are_choices_when_told() -> None:
    """The algorithm can be tuned once the registry's names are given."""
    space = search_space({}, default_config(), tuned=("allreduce_algorithm",), algorithms=("ring",))

    assert ("auto", "ring") == space.free[0].choices  # type: ignore[union-attr]


def test_a_baseline_that_contradicts_a_fixed_value_is_refused() -> None:
    """Both values are named."""
    with pytest.raises(SpaceError, match="fusion_bytes=67108864 is not allowed; it is fixed to 0"):
        search_space({"fusion_bytes": 0}, default_config())


@pytest.mark.parametrize(
    ("ranks_per_host", "has_allgathers", "switches"),
    [
        ([4], True, set()),
        ([1, 1, 1], True, {"connections"}),
        ([2, 2], False, {"hierarchical_allreduce", "connections"}),
        ([1, 2], True, {"hierarchical_allreduce", "hierarchical_allgather", "connections"}),
    ],
)
def test_knobs_of_several_hosts_are_tuned_where_they_can_act(
    ranks_per_host: list[int], has_allgathers: bool, switches: set[str]
) -> None:
    """A switch can act with several hosts of which one has several ranks; that of allgathers needs some."""
    names = set(tunable_names(ranks_per_host, has_allgathers=has_allgathers))

    assert {"fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes"} | switches == names


def test_connections_cannot_be_tuned_where_an_mpi_carries_the_data() -> None:
    """Several connections are TCP's alone."""
    assert "connections" not in tunable_names([2, 2], has_allgathers=False, has_lanes=False)


def test_gradients_are_rounded_between_hosts_alone_and_only_where_that_is_allowed() -> None:
    """A job on one host has no traffic to round."""
    layouts = [([1, 1], True), ([2, 2], True), ([1, 1], False), ([2], True)]

    tuned = [tunable_names(ranks, has_allgathers=False, may_round=may_round) for ranks, may_round in layouts]

    assert [True, True, False, False] == ["wire" in names for names in tuned]


@pytest.mark.parametrize(
    ("ranks_per_host", "has_uneven_links", "is_tuned"),
    [([1, 1, 1], True, True), ([2, 2, 2], True, True), ([1, 1, 1], False, False), ([2, 2], True, False)],
)
def test_skew_is_tuned_between_three_hosts_whose_links_differ(
    ranks_per_host: list[int], has_uneven_links: bool, is_tuned: bool
) -> None:
    """Between even links it cannot act, so that no run can adopt it."""
    names = tunable_names(ranks_per_host, has_allgathers=False, has_uneven_links=has_uneven_links)

    assert is_tuned is ("skew" in names)


@pytest.mark.parametrize(
    ("ranks_per_host", "switches"), [([4], set()), ([1, 1], set()), ([2, 1], {"nccl_hierarchical"})]
)
def test_where_nccl_carries_the_gradients_its_knobs_take_the_place_of_the_algorithms(
    ranks_per_host: list[int], switches: set[str]
) -> None:
    """The switches between the engine's own algorithms have no effect there."""
    names = set(tunable_names(ranks_per_host, has_allgathers=True, is_on_nccl=True))

    assert {"fusion_bytes", "cycle_ms", "response_cache", "nccl_pack_bytes", "nccl_ctas"} | switches == names


@pytest.mark.parametrize(
    ("ranks_per_host", "algorithm", "pinned"),
    [
        ([4], "auto", {**FLAT, **ONE_HOST}),
        ([1, 1], "auto", FLAT),
        ([2, 1], "auto", NO_SKEW),
        ([2, 1, 1], "auto", {}),
        ([4], "direct", {**FLAT, **ONE_HOST}),
        ([4], "ring", {**FLAT, **ONE_HOST, "allreduce_algorithm": "auto"}),
        ([2, 1], "direct", {**NO_SKEW, "allreduce_algorithm": "auto"}),
        ([2, 1], "recursive_doubling", NO_SKEW),
    ],
)
def test_knobs_that_cannot_act_are_pinned(ranks_per_host: list[int], algorithm: str, pinned: dict[str, object]) -> None:
    """An algorithm is for one host or for several, the hierarchical switches are for several."""
    assert pinned == pinned_by_layout(ranks_per_host, algorithm)
