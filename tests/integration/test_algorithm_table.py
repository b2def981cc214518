# SPDX-License-Identifier: Apache-2.0
"""Real jobs measure a table once and keep it; whatever happens to its file, they start and give the same bits."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ringtune.world.algorithm_tables.measurement import LIMIT_S
from ringtune.world.algorithm_tables.store import read_table
from ringtune.world.algorithm_tables.table import SCHEMA
from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import Finished, forked, ranks, ringtune, run_job
from tests.integration.ports import free_port
from tests.integration.worlds import check_places, explicit, on_hosts, places, run_all, run_all_forked

PROGRAM = "algorithm_table"
MEASURING = "measuring which algorithm"
STAGED = "reduce_scatter_allgather"
ROOM_S = 45.0
"""For all that is no measuring, on a machine that is busy elsewhere."""


def environ(cache: Path, **changes: str) -> dict[str, str]:
    """Return the variables of a job that measures and says so."""
    return {
        "XDG_CACHE_HOME": str(cache),
        "RINGTUNE_ALGORITHM_TABLE": "auto",
        "RINGTUNE_LOG_LEVEL": "info",
        **changes,
    }


def said(finished: Finished) -> dict[str, Any]:
    """Return rank 0's output; the job must have ended well."""
    assert 0 == finished.code, finished.text
    (line,) = (line for line in finished.stdout.splitlines() if line.startswith("{"))
    return dict(json.loads(line))


def run_ranks(count: int, variables: Mapping[str, str]) -> Finished:
    """Run the program on the ranks of one host."""
    return run_job(ranks(count, PROGRAM), variables)


def kept_files(cache: Path) -> list[Path]:
    """Return the files of the cache folder."""
    return [path for path in cache.rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache folder of a job of two ranks that has measured."""
    cache = tmp_path_factory.mktemp("measured")
    said(run_ranks(2, environ(cache)))
    return cache


def write_table(path: Path, layout: list[int], *rows: tuple[int | None, str, int]) -> Path:
    """Write a table as a user would copy one."""
    named = [dict(zip(("max_bytes", "algorithm", "chunk_bytes"), row, strict=True)) for row in rows]
    content = {"schema": SCHEMA, "key": {"layout": layout}, "measured_s": 1.0, "load": 1.0, "rows": named}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_first_start_measures_and_the_next_ones_do_not(tmp_path: Path) -> None:
    """A measured table is kept, shown and used again; another number of ranks has a table of its own."""
    first = run_ranks(2, environ(tmp_path))
    (path,) = kept_files(tmp_path)
    content = path.read_bytes()
    second = run_ranks(2, environ(tmp_path))
    other = run_ranks(3, environ(tmp_path))

    assert said(first)["bits"] == said(second)["bits"]
    assert 1 == first.stderr.count(MEASURING), first.text
    assert f"kept in {path}" in first.stderr
    assert MEASURING not in second.stderr
    assert f"algorithm table of {path}" in second.stderr
    assert content == path.read_bytes()
    assert 0 < read_table(path).measured_s
    assert 1 == other.stderr.count(MEASURING), other.text
    assert 2 == len(kept_files(tmp_path))
    shown = run_job(ringtune("doctor"), environ(tmp_path)).stdout
    assert f"{path.name}, [2] ranks per host over shm" in shown


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_measuring_keeps_to_its_limit(tmp_path: Path, transport: str) -> None:
    """The job is through `init` in time with more ranks than cores, and between hosts."""
    finished = run_ranks(4, environ(tmp_path, RINGTUNE_TRANSPORT=transport))

    assert said(finished)["init_s"] < LIMIT_S + ROOM_S
    (path,) = kept_files(tmp_path)
    table = read_table(path)
    assert table.measured_s < LIMIT_S + ROOM_S / 2
    assert ("shm" if transport == "auto" else "tcp") == table.key["carrier"]


@needs_hosts
@pytest.mark.parametrize("rate", ["512kbit", "1gbit"])
def test_a_slow_link_is_not_measured_for_longer(tmp_path: Path, rate: str) -> None:
    """A message that does not fit into the time is left out; half a megabit takes a minute for the largest."""
    with hosts(2, rate=rate) as made:
        address = f"tcp://{made[0].address}:{free_port()}"
        found = run_all(on_hosts(made, 1), [explicit(rank, 2, address, **environ(tmp_path)) for rank in range(2)])

    check_places(places(found), [0, 1], "tcp")
    (path,) = kept_files(tmp_path)
    assert read_table(path).measured_s < LIMIT_S + ROOM_S / 2


@pytest.mark.parametrize("content", ["", "{", '{"schema": 1, "key": {}, "rows": [], "measured_s": 1, "load": 1}'])
def test_a_broken_file_is_announced_once_and_replaced(tmp_path: Path, measured: Path, content: str) -> None:
    """The job measures as if the file had not been there."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    (path,) = kept_files(tmp_path)
    path.write_text(content, encoding="utf-8")

    finished = run_ranks(2, environ(tmp_path, RINGTUNE_LOG_LEVEL="warning"))

    said(finished)
    assert 1 == finished.stderr.count("measured anew"), finished.text
    assert str(path) in finished.stderr
    assert read_table(path).rows


def test_a_kept_table_that_the_engine_refuses_is_measured_anew(tmp_path: Path, measured: Path) -> None:
    """Rows that read well and cannot serve are a broken file too."""
    shutil.copytree(measured, tmp_path, dirs_exist_ok=True)
    (path,) = kept_files(tmp_path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "rows": [{"max_bytes": None, "algorithm": "ring", "chunk_bytes": 65536}]}))

    finished = run_ranks(2, environ(tmp_path))

    said(finished)
    assert 1 == finished.stderr.count("measured anew"), finished.text
    assert "ring" not in {row.algorithm for row in read_table(path).rows}


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """The job says once that every start will measure, and the remedy."""
    cache = tmp_path / "cache"
    cache.write_text("no folder")

    finished = run_ranks(2, environ(cache, RINGTUNE_LOG_LEVEL="warning"))

    said(finished)
    assert 1 == finished.stderr.count("cannot be kept"), finished.text
    assert "RINGTUNE_ALGORITHM_TABLE=default" in finished.stderr


@pytest.mark.parametrize(
    "variables",
    [
        {"RINGTUNE_ALGORITHM_TABLE": "default"},
        {"RINGTUNE_ALLREDUCE_ALGORITHM": "direct", "RINGTUNE_CHUNK_BYTES": "64KiB"},
        {"RINGTUNE_TRANSPORT": "tcp", "RINGTUNE_ALLREDUCE_ALGORITHM": "ring", "RINGTUNE_CHUNK_BYTES": "64KiB"},
    ],
)
def test_nothing_is_measured_where_there_is_nothing_to_choose(tmp_path: Path, variables: dict[str, str]) -> None:
    """A job without a choice of algorithms neither measures nor writes a file."""
    finished = run_ranks(2, environ(tmp_path, **variables))

    said(finished)
    assert MEASURING not in finished.stderr
    assert [] == kept_files(tmp_path)


def test_process_sets_measure_nothing(tmp_path: Path) -> None:
    """A process set takes the kept table for its own ranks per host, or the compiled-in values."""
    finished = run_job(ranks(4, "process_sets"), environ(tmp_path))

    assert 0 == finished.code, finished.text
    (path,) = kept_files(tmp_path)
    assert [4] == read_table(path).key["layout"]
    assert 1 == finished.stderr.count(MEASURING), finished.text


def test_one_rank_measures_nothing(tmp_path: Path) -> None:
    """One rank has no other to reduce with."""
    finished = run_ranks(1, environ(tmp_path))

    said(finished)
    assert [] == kept_files(tmp_path)


def test_a_given_table_decides_and_no_table_changes_a_bit(tmp_path: Path) -> None:
    """Algorithm and chunk follow the file, and the sums are the same to the last bit."""
    direct = write_table(tmp_path / "direct.json", [3], (None, "direct", 131072))
    staged = write_table(tmp_path / "staged.json", [3], (None, STAGED, 16384))
    mixed = write_table(tmp_path / "mixed.json", [3], (100_000, "direct", 131072), (None, STAGED, 4 * 2**20))

    results = [
        said(run_ranks(3, environ(tmp_path, RINGTUNE_ALGORITHM_TABLE=str(path)))) for path in (direct, staged, mixed)
    ]
    compiled_in = said(run_ranks(3, environ(tmp_path, RINGTUNE_ALGORITHM_TABLE="default")))

    assert [{"direct": 3}, {STAGED: 3}, {"direct": 2, STAGED: 1}] == [result["used"] for result in results]
    assert results[1]["chunks"] > results[2]["chunks"]
    assert {compiled_in["bits"]} == {result["bits"] for result in results}


def test_between_hosts_a_table_decides_and_changes_no_bit(tmp_path: Path) -> None:
    """All but the ring add in one order, for any number of hosts; a setting names any of them."""
    names = ("hierarchical", "hierarchical_whole", "recursive_doubling", "halving_doubling", "tree")
    variables = environ(tmp_path, RINGTUNE_TRANSPORT="tcp")
    results = {}
    for name in names:
        table = write_table(tmp_path / f"{name}.json", [1] * 5, (None, name, 65536))
        results[name] = said(run_ranks(5, {**variables, "RINGTUNE_ALGORITHM_TABLE": str(table)}))
    chosen = {"RINGTUNE_ALGORITHM_TABLE": "default", "RINGTUNE_ALLREDUCE_ALGORITHM": "ring"}
    ring = said(run_ranks(5, {**variables, **chosen}))

    assert [{name: 3} for name in names] == [result["used"] for result in results.values()]
    assert {"ring": 3} == ring["used"]
    assert 1 == len({result["bits"] for result in results.values()})


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("{", "no algorithm table"), ("rows of another layout", "cannot run with 1 host")],
)
def test_a_given_file_without_a_table_stops_the_job(tmp_path: Path, content: str | None, reason: str) -> None:
    """Every rank's error has the variable, the file and the remedy."""
    path = tmp_path / "table.json"
    if content is not None:
        path.write_text(content)
    if content == "rows of another layout":
        write_table(path, [2], (None, "ring", 65536))

    finished = run_ranks(2, environ(tmp_path, RINGTUNE_ALGORITHM_TABLE=str(path)))

    assert 1 == finished.code, finished.text
    assert 2 == finished.stdout.count("ConfigError"), finished.text
    assert f"RINGTUNE_ALGORITHM_TABLE={path} cannot be used" in finished.stderr
    assert reason in finished.stderr
    assert "set auto or default" in finished.stderr


def test_a_given_table_for_other_ranks_per_host_is_left_aside(tmp_path: Path) -> None:
    """One job runs unchanged at any size; rank 0 names the table in use."""
    path = write_table(tmp_path / "table.json", [4], (None, "direct", 131072))

    finished = run_ranks(2, environ(tmp_path, RINGTUNE_ALGORITHM_TABLE=str(path)))

    assert {"direct": 2, STAGED: 1} == said(finished)["used"]
    assert 1 == finished.stderr.count("compiled-in table is used"), finished.text


def test_a_rank_that_dies_while_others_measure_ends_the_job(tmp_path: Path) -> None:
    """The others learn of the death as in any other collective."""
    address = f"tcp://127.0.0.1:{free_port()}"
    commands = [forked(PROGRAM, "lost")] * 2

    first, second = run_all_forked(commands, [explicit(rank, 2, address, **environ(tmp_path)) for rank in range(2)])

    assert -9 == second.code, second.text
    assert first.stdout.startswith("PeerLostError after "), first.text
    assert float(first.stdout.split()[2]) < ROOM_S
