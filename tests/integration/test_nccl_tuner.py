# SPDX-License-Identifier: Apache-2.0
"""The tuner plugin for NCCL, compiled here and driven through its three interfaces as NCCL does, without a GPU."""

import ctypes
import os
import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtune.launch_tuning import plugin_path
from ringtune.tuning.command.engines.nccl_table import TABLE_VARIABLE, Rule, encode_table, write_table
from tests.integration.nccl_plugin import (
    ALGORITHMS,
    COMPILER,
    STRUCTURES,
    Communicator,
    TunerV6,
    compile_c,
    problem_of,
    untouched,
)

STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
WRAPPED = ("-Wl,--wrap=malloc", "-Wl,--wrap=calloc", "-Wl,--wrap=fopen")
ALLREDUCE, REDUCE, ALLTOALL = 4, 1, 8
TREE, RING, COLLNET_DIRECT, NVLS = 0, 1, 2, 4
LL, LL128, SIMPLE = 0, 1, 2
IMPOSSIBLE = -1.0
WARN, INFO = 2, 3
MUTATIONS = 1500

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


@pytest.fixture(scope="module", params=["compiled", "installed"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the plugin, compiled here without a warning, and as the package has it."""
    if request.param == "installed":
        return ctypes.CDLL(str(plugin_path()))
    path = tmp_path_factory.mktemp("plugin") / "libringtune_nccl_tuner.so"
    compile_c([*STRICT, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--no-undefined"], path, [])
    return ctypes.CDLL(str(path))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path in the plugin's variable; there is no file at first."""
    path = tmp_path / "table"
    monkeypatch.setenv(TABLE_VARIABLE, str(path))
    return path


@pytest.fixture(params=sorted(STRUCTURES))
def version(request: pytest.FixtureRequest) -> int:
    """Return each version of the interface."""
    return int(request.param)


def test_each_version_does_what_the_table_says(library: ctypes.CDLL, table: Path, version: int) -> None:
    """The named cell costs 0, the others keep their cost; channels are given."""
    write_table(table, [Rule("allreduce", "nvls", "simple", 12)])
    communicator = Communicator(library, version, nodes=1)

    answer = communicator.ask(ALLREDUCE, 4096)

    assert [(NVLS, SIMPLE)] == answer.chosen
    assert 12 == answer.channels
    assert [13.0, 14.0, 15.0] == answer.costs[RING]
    assert b"ringtune" == communicator.tuner.name
    assert [INFO] == [level for level, _ in communicator.logs]
    communicator.close()


def test_v6_leaves_chunks_to_nccl(library: ctypes.CDLL) -> None:
    """A null pointer says so."""
    assert TunerV6.in_dll(library, "ncclTunerPlugin_v6").get_chunk_size is None


def test_rules_hold_within_their_bounds_and_the_first_wins(library: ctypes.CDLL, table: Path, version: int) -> None:
    """Bounds are included; NCCL decides on sizes and collectives without a rule."""
    rules = [
        Rule("allreduce", "tree", "ll", bytes_range=(0, 4095)),
        Rule("allreduce", "ring", "simple", bytes_range=(4096, 1 << 20)),
        Rule("allreduce", "nvls", "simple", bytes_range=(1 << 20, 1 << 21)),
    ]
    write_table(table, rules)
    communicator = Communicator(library, version)

    chosen = {size: communicator.ask(ALLREDUCE, size).chosen for size in (0, 4095, 4096, 1 << 20, (1 << 20) + 1)}

    assert [(TREE, LL)] == chosen[0] == chosen[4095]
    assert [(RING, SIMPLE)] == chosen[4096] == chosen[1 << 20]
    assert [(NVLS, SIMPLE)] == chosen[(1 << 20) + 1]
    assert untouched(communicator.ask(ALLREDUCE, (1 << 21) + 1))
    assert untouched(communicator.ask(ALLREDUCE, 2**64 - 1))
    for collective in (REDUCE, ALLTOALL, -1, 2**31 - 1):
        assert untouched(communicator.ask(collective, 4096))
    communicator.close()


@pytest.mark.parametrize(
    ("ranks", "nodes", "holds"),
    [(8, 2, True), (16, 4, True), (7, 2, False), (17, 4, False), (8, 1, False), (8, 5, False)],
)
def test_rules_hold_for_their_jobs(library: ctypes.CDLL, table: Path, ranks: int, nodes: int, *, holds: bool) -> None:
    """A rule holds for ranks and nodes of the communicator, bounds included."""
    write_table(table, [Rule("allreduce", "ring", "ll", ranks_range=(8, 16), nodes_range=(2, 4))])
    communicator = Communicator(library, 6, ranks, nodes)

    assert holds == ([(RING, LL)] == communicator.ask(ALLREDUCE, 1).chosen)
    communicator.close()


def test_what_a_rule_leaves_open_is_nccls_cheapest(library: ctypes.CDLL, table: Path, version: int) -> None:
    """The cheapest cell that the rule allows is chosen; one that NCCL rules out never is."""
    write_table(table, [Rule("allreduce", "ring"), Rule("reduce", None, "ll128"), Rule("broadcast", channels=3)])
    costs = [[9.0, 9.0, 9.0] for _ in range(ALGORITHMS)]
    costs[RING] = [7.0, IMPOSSIBLE, 5.0]
    costs[NVLS][LL128] = 2.0
    communicator = Communicator(library, version, nodes=1)

    assert [(RING, SIMPLE)] == communicator.ask(ALLREDUCE, 1, costs).chosen
    assert [(NVLS, LL128)] == communicator.ask(REDUCE, 1, costs).chosen
    broadcast = communicator.ask(0, 1, costs)
    assert ([], 3) == (broadcast.chosen, broadcast.channels)
    communicator.close()


def test_what_is_impossible_for_a_call_is_left_alone(library: ctypes.CDLL, table: Path, version: int) -> None:
    """Channels included: they were meant for another algorithm."""
    write_table(table, [Rule("allreduce", "nvls", "simple", 16)])
    costs = [[9.0, 9.0, 9.0] for _ in range(ALGORITHMS)]
    costs[NVLS][SIMPLE] = IMPOSSIBLE
    communicator = Communicator(library, version)

    answer = communicator.ask(ALLREDUCE, 1, costs)

    assert untouched(answer)
    assert IMPOSSIBLE == answer.costs[NVLS][SIMPLE]
    communicator.close()


def test_tables_of_other_shapes_are_kept_to(library: ctypes.CDLL, table: Path) -> None:
    """An NCCL with fewer algorithms, or more protocols, has rows of other lengths."""
    write_table(table, [Rule("allreduce", "nvls", "simple"), Rule("reduce", "ring", "simple")])
    communicator = Communicator(library, 4)

    assert untouched(communicator.ask(ALLREDUCE, 1, [[9.0, 9.0, 9.0], [9.0, 9.0, 9.0]]))
    assert [(RING, SIMPLE)] == communicator.ask(REDUCE, 1, [[9.0] * 4 for _ in range(9)]).chosen
    assert untouched(communicator.ask(REDUCE, 1, [[9.0]]))
    communicator.close()


@pytest.mark.parametrize(
    ("algorithm", "nodes", "channels"),
    [
        ("collnet_direct", 1, 0),
        ("collnet_chain", 2, 0),
        ("nvls", 2, 0),
        ("nvls", 1, 32),
        ("nvls_tree", 2, 32),
        ("ring", 2, 32),
        ("pat", 2, 32),
    ],
)
def test_channels_are_left_alone_where_nccl_does_not_check_them(
    library: ctypes.CDLL, table: Path, algorithm: str, nodes: int, channels: int
) -> None:
    """CollNet, and NVLS over several nodes, would run past the communicator's channels; the choice itself holds."""
    write_table(table, [Rule("allreduce", algorithm, "simple", 32)])
    communicator = Communicator(library, 5, 8, nodes)

    answer = communicator.ask(ALLREDUCE, 1 << 20)

    assert 1 == len(answer.chosen)
    assert channels == answer.channels
    communicator.close()


def test_channels_alone_look_at_what_nccl_will_choose(library: ctypes.CDLL, table: Path) -> None:
    """The cheapest cell is NCCL's choice: no channels where that is CollNet."""
    write_table(table, [Rule("allreduce", channels=5)])
    costs = [[9.0, 9.0, 9.0] for _ in range(ALGORITHMS)]
    collnet = [list(row) for row in costs]
    costs[RING][LL] = 1.0
    collnet[COLLNET_DIRECT][SIMPLE] = 1.0
    communicator = Communicator(library, 6)

    assert ([], 5) == (communicator.ask(ALLREDUCE, 1, costs).chosen, communicator.ask(ALLREDUCE, 1, costs).channels)
    assert untouched(communicator.ask(ALLREDUCE, 1, collnet))
    assert untouched(communicator.ask(ALLREDUCE, 1, [[IMPOSSIBLE] * 3 for _ in range(ALGORITHMS)]))
    communicator.close()


def test_registered_buffers_and_operations_have_rules_of_their_own(
    library: ctypes.CDLL, table: Path, version: int
) -> None:
    """Bounds are included; the first rule that fits holds."""
    rules = [
        Rule("allreduce", "nvls", "simple", registered=True),
        Rule("allreduce", "tree", "ll", registered=False, pipe_ops_range=(2, 4)),
        Rule("allreduce", "ring", "simple"),
    ]
    write_table(table, rules)
    communicator = Communicator(library, version, nodes=1)

    assert [(NVLS, SIMPLE)] == communicator.ask(ALLREDUCE, 1, registered=True, pipe_ops=3).chosen
    chosen = {ops: communicator.ask(ALLREDUCE, 1, pipe_ops=ops).chosen for ops in (-1, 0, 1, 2, 4, 5)}
    assert [(TREE, LL)] == chosen[2] == chosen[4]
    assert [(RING, SIMPLE)] == chosen[-1] == chosen[0] == chosen[1] == chosen[5]
    communicator.close()


def test_a_table_of_version_1_is_still_read(library: ctypes.CDLL, table: Path) -> None:
    """Tables that users have keep their meaning."""
    fields = (0, 2**64 - 1, 0, 2**32 - 1, 0, 2**32 - 1, ALLREDUCE, RING, LL, 7)
    body = b"RTNCCLT\0" + struct.pack("<II", 1, 1) + struct.pack("<QQIIIIiiii", *fields)
    table.write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    communicator = Communicator(library, 6)

    for registered in (False, True):
        answer = communicator.ask(ALLREDUCE, 1, registered=registered, pipe_ops=9)
        assert ([(RING, LL)], 7) == (answer.chosen, answer.channels)
    communicator.close()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be opened"),
        (b"", "it is no table"),
        (b"RTNCCLT\0", "it is no table"),
        (b"NCCL_ALGO=Ring # a conf file, not a table", "it is no table"),
        (encode_table([Rule("allreduce", "ring")])[:-1], "too short or too long"),
        (encode_table([Rule("allreduce", "ring")]) + b"\0", "too short or too long"),
        (encode_table([Rule("allreduce", "ring")]).replace(b"\xff" * 8, b"\x7f" * 8), "checksum is wrong"),
        (b"RTNCCLT\0\3\0\0\0" + b"\0" * 8, "another version"),
        (b"RTNCCLT\0\0\0\0\0" + b"\0" * 8, "another version"),
        (b"RTNCCLT\0\1\0\0\0\xff\xff\xff\xff" + b"\0" * 4, "too many rules"),
    ],
)
def test_a_table_that_is_none_is_ignored_with_one_line(
    library: ctypes.CDLL, table: Path, content: bytes | None, problem: str
) -> None:
    """A warning through NCCL's logger; the job goes on as without the plugin."""
    if content is not None:
        table.write_bytes(content)
    for version in STRUCTURES:
        communicator = Communicator(library, version)

        assert untouched(communicator.ask(ALLREDUCE, 1))
        ((level, _),) = communicator.logs
        assert WARN == level
        communicator.close()
    assert problem in problem_of(library, table)


def test_a_directory_and_an_unset_variable_are_no_tables(
    library: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is a warning, the second the user's choice."""
    monkeypatch.setenv(TABLE_VARIABLE, str(tmp_path))
    folder = Communicator(library, 6)
    monkeypatch.delenv(TABLE_VARIABLE)
    unset = Communicator(library, 6)

    assert untouched(folder.ask(ALLREDUCE, 1))
    assert untouched(unset.ask(ALLREDUCE, 1))
    assert ([WARN], [INFO]) == ([level for level, _ in folder.logs], [level for level, _ in unset.logs])
    folder.close()
    unset.close()


def test_a_communicator_keeps_its_table(library: ctypes.CDLL, table: Path) -> None:
    """A table that is replaced holds for communicators made later, so that ranks never choose differently."""
    write_table(table, [Rule("allreduce", "ring", "ll")])
    first = Communicator(library, 6)
    write_table(table, [Rule("allreduce", "tree", "simple")])
    second = Communicator(library, 5)

    assert [(RING, LL)] == first.ask(ALLREDUCE, 1).chosen
    assert [(TREE, SIMPLE)] == second.ask(ALLREDUCE, 1).chosen
    first.close()
    assert [(TREE, SIMPLE)] == second.ask(ALLREDUCE, 1).chosen
    second.close()


def test_mutated_tables_harm_nobody(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """Mutated tables, half of them with a right checksum, pass all versions under AddressSanitizer and UBSan."""
    program = tmp_path / "harness"
    compile_c(
        [*STRICT, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover", *WRAPPED], program, HARNESS
    )
    write_table(tmp_path / "table", several_rules())

    text = run_harness([str(program), "mutate", str(tmp_path / "table"), str(tmp_path / "scratch"), str(MUTATIONS)])

    match = re.fullmatch(r"(\d+) mutations, (\d+) warnings, (\d+) infos\n", text)
    assert match is not None, text
    mutations, warnings, infos = map(int, match.groups())
    assert MUTATIONS == mutations
    assert 2 * MUTATIONS == warnings + infos, "each communicator with a logger writes one line"
    assert warnings > MUTATIONS / 4
    assert infos > MUTATIONS / 4
    record_property("mutations", mutations)


def test_asking_allocates_nothing_and_opens_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A hundred thousand questions, and the log has the one line of the beginning."""
    program = tmp_path / "harness"
    compile_c([*STRICT, "-O2", *WRAPPED], program, HARNESS)
    write_table(tmp_path / "table", several_rules())

    text = run_harness([str(program), "quiet", str(tmp_path / "table"), "100000"])

    match = re.fullmatch(r"(\d+) requests, (\d+) ns each, (\d+) logs\n", text)
    assert match is not None, text
    assert ("0", "1") == (match[1], match[3])
    record_property("ns_per_question", int(match[2]))


HARNESS = ["nccl_tuner_harness"]


def several_rules() -> list[Rule]:
    """Return a table of some size."""
    sizes = [(1 << k, (1 << (k + 1)) - 1) for k in range(10, 24)]
    return [
        Rule(collective, algorithm, "simple" if low > 1 << 16 else "ll", 4, bytes_range=(low, high))
        for collective, algorithm in (("allreduce", "ring"), ("reduce", "tree"), ("allgather", None))
        for low, high in sizes
    ]


def run_harness(command: list[str]) -> str:
    """Run the harness to its end; a sanitizer's report fails."""
    environ = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1"}
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=60)
    assert 0 == finished.returncode, finished.stderr
    return finished.stdout
