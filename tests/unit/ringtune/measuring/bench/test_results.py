# SPDX-License-Identifier: Apache-2.0
"""The table of the rounds' rows."""

import pytest

from ringtune.measuring.bench.results import ResultRow, Summary, summarize

LIMIT_WAYS = ("staged", "registered")
PEERS = ("mpich", "gloo")


def rows_of(times_us: dict[str, list[float]], size_bytes: int = 1024, workload: str = "") -> list[ResultRow]:
    """Return rows with one time per round; the 99th percentile is twice the median."""
    return [
        ResultRow(number, contestant_of(way), way, workload, size_bytes, 2, us, 2 * us)
        for way, times in times_us.items()
        for number, us in enumerate(times)
    ]


def contestant_of(way: str) -> str:
    """Return the contestant that measures a way: some have several."""
    return "limit" if way in LIMIT_WAYS else way.partition(",")[0]


def summaries_of(rows: list[ResultRow]) -> list[Summary]:
    """Return the summaries of rows."""
    return summarize(rows, "limit", PEERS)


def summary_of(way: str, times_us: dict[str, list[float]]) -> Summary:
    """Return the summary of one way."""
    (found,) = (line for line in summaries_of(rows_of(times_us)) if line.way == way)
    return found


def test_times_are_medians_over_rounds() -> None:
    """One slow round changes neither the time nor its 99th percentile."""
    summary = summary_of("engine", {"engine": [3.0, 900.0, 2.0]})

    assert (3.0, 6.0) == (summary.us_median, summary.us_p99)


def test_ratios_are_taken_within_rounds() -> None:
    """A machine that is ten times slower in one round changes no ratio."""
    times = {"engine": [4.0, 40.0, 4.0], "staged": [2.0, 20.0, 2.0], "mpich": [8.0, 80.0, 8.0]}

    summary = summary_of("engine", times)

    assert summary.to_limit is not None
    assert summary.to_best_peer is not None
    assert (2.0, 0.5) == (summary.to_limit.median, summary.to_best_peer.median)


def test_the_best_peer_is_each_rounds_own() -> None:
    """Peers that take turns at being slow are not averaged: the quicker of each round counts."""
    summary = summary_of("engine", {"engine": [2.0, 2.0, 2.0], "mpich": [1.0, 9.0, 1.0], "gloo": [9.0, 1.0, 9.0]})

    assert summary.to_best_peer is not None
    assert 2.0 == summary.to_best_peer.median


def test_an_interval_takes_six_rounds() -> None:
    """Five rounds give a median alone; six give both ends, which are ratios themselves."""
    six = {"engine": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "staged": [1.0] * 6}

    few = summary_of("engine", {way: times[:5] for way, times in six.items()}).to_limit
    enough = summary_of("engine", six).to_limit

    assert few is not None
    assert few.interval is None
    assert enough is not None
    assert enough.interval is not None
    assert (3.5, 1.0, 6.0) == (enough.median, enough.interval.low, enough.interval.high)


def test_what_was_not_measured_is_compared_with_nothing() -> None:
    """Without peers there is no best one, and the limit has no limit."""
    times = {"engine": [2.0], "staged": [1.0], "registered": [0.5]}

    assert summary_of("engine", times).to_best_peer is None
    assert summary_of("staged", times).to_limit is None
    assert summary_of("registered", times).to_limit is None


def test_lines_are_sorted_by_size_then_limit_engine_peers() -> None:
    """However the rounds were shuffled."""
    ways = {"gloo": [1.0], "engine": [1.0], "staged": [1.0]}

    lines = summaries_of([*rows_of(ways, 4096), *rows_of(ways, 1024)])

    assert [(size, way) for size in (1024, 4096) for way in ("staged", "engine", "gloo")] == [
        (line.bytes, line.way) for line in lines
    ]


def test_sizes_are_not_mixed() -> None:
    """A size's ratio uses the same size's limit."""
    rows = [*rows_of({"engine": [2.0], "staged": [1.0]}), *rows_of({"engine": [9.0], "staged": [3.0]}, 4096)]

    ratios = [line.to_limit.median for line in summaries_of(rows) if line.to_limit is not None]

    assert [2.0, 3.0] == pytest.approx(ratios)


def test_registered_memory_is_compared_with_its_own_limit() -> None:
    """Copies through stages have another limit than reductions in place."""
    times = {"staged": [2.0], "registered": [0.5], "engine": [4.0], "engine, registered": [4.0], "mpich, flat": [3.0]}

    to_limit = {line.way: line.to_limit for line in summaries_of(rows_of(times))}

    ratios = {way: None if found is None else found.median for way, found in to_limit.items()}
    assert {"staged": None, "registered": None, "engine": 2.0, "engine, registered": 8.0, "mpich, flat": 1.5} == ratios


def test_a_peers_best_way_is_what_counts() -> None:
    """The best of all ways of all peers counts."""
    summary = summary_of("engine", {"engine": [4.0], "mpich, packed": [8.0], "mpich, at once": [2.0], "gloo": [9.0]})

    assert summary.to_best_peer is not None
    assert 2.0 == summary.to_best_peer.median


def test_workloads_follow_sizes_and_are_not_mixed_with_them() -> None:
    """Not even where both have as many bytes."""
    rows = [*rows_of({"engine": [3.0]}, workload="small"), *rows_of({"engine": [1.0], "staged": [1.0]})]

    found = [(line.workload, line.way, line.us_median, line.to_limit is None) for line in summaries_of(rows)]

    assert [("", "staged", 1.0, True), ("", "engine", 1.0, False), ("small", "engine", 3.0, True)] == found
