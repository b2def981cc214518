# SPDX-License-Identifier: Apache-2.0
"""The table of the NCCL tuner plugin, as Python writes and reads it."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.errors import ConfigError
from ringtune.tuning.command.engines.nccl_table import (
    ALGORITHMS,
    COLLECTIVES,
    MAX_CHANNELS,
    MAX_RULES,
    MAX_U32,
    MAX_U64,
    PROTOCOLS,
    Rule,
    decode_table,
    encode_table,
    write_table,
)


def ranges(limit: int) -> st.SearchStrategy[tuple[int, int]]:
    """Return pairs of a least and a most value."""
    pairs = st.tuples(st.integers(0, limit), st.integers(0, limit))
    return pairs.map(lambda pair: (min(pair), max(pair)))


RULES = st.builds(
    Rule,
    collective=st.sampled_from(COLLECTIVES),
    algorithm=st.sampled_from(ALGORITHMS),
    protocol=st.sampled_from((None, *PROTOCOLS)),
    channels=st.integers(0, MAX_CHANNELS),
    bytes_range=ranges(MAX_U64),
    nodes_range=ranges(MAX_U32),
    ranks_range=ranges(MAX_U32),
    registered=st.sampled_from((None, False, True)),
    pipe_ops_range=ranges(MAX_U32),
)


@given(st.lists(RULES, max_size=8))
def test_what_is_written_is_read(rules: list[Rule]) -> None:
    """Any rules come back as they were, in their order."""
    assert tuple(rules) == decode_table(encode_table(rules))


def test_a_table_of_version_1_is_read() -> None:
    """Rules of version 1 hold for all buffers and any number of operations; the bytes are those that 0.1 wrote."""
    rule = struct.pack("<QQIIIIiiii", 1, 2**20, 2, 4, 8, 16, COLLECTIVES.index("allgather"), 1, -1, 12)
    body = b"RTNCCLT\0" + struct.pack("<II", 1, 1) + rule
    table = body + struct.pack("<I", zlib.crc32(body))

    read = decode_table(table)

    assert (Rule("allgather", "ring", None, 12, (1, 2**20), (2, 4), (8, 16)),) == read
    assert read == decode_table(encode_table(read))


def test_a_table_of_a_later_version_is_refused() -> None:
    """The refusal has the known versions."""
    with pytest.raises(ConfigError, match="version 3, this program reads versions 1 to 2"):
        decode_table(encode_table([]).replace(b"RTNCCLT\0\2", b"RTNCCLT\0\3"))


@given(st.lists(RULES, min_size=1, max_size=3), st.data())
def test_a_changed_byte_is_noticed(rules: list[Rule], data: st.DataObject) -> None:
    """A table with any byte changed, or cut anywhere, is refused."""
    table = bytearray(encode_table(rules))
    table[data.draw(st.integers(0, len(table) - 1))] ^= data.draw(st.integers(1, 255))
    shorter = encode_table(rules)[: data.draw(st.integers(0, len(table) - 1))]

    for damaged in (bytes(table), shorter, encode_table(rules) + b"\0"):
        with pytest.raises(ConfigError):
            decode_table(damaged)


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (Rule("allreduce"), "nothing to do"),
        (Rule("alltoall", "ring"), "alltoall"),
        (Rule("allreduce", "star"), "star"),
        (Rule("allreduce", "ring", "ll256"), "ll256"),
        (Rule("allreduce", "ring", channels=65), "65 channels"),
        (Rule("allreduce", "ring", bytes_range=(2, 1)), "2 to 1"),
        (Rule("allreduce", "ring", ranks_range=(0, 2**32)), "0 to 4294967296"),
        (Rule("allreduce", "ring", pipe_ops_range=(3, 2)), "3 to 2"),
    ],
)
def test_impossible_rules_are_refused(rule: Rule, named: str) -> None:
    """The message names the fault."""
    with pytest.raises(ConfigError, match=named):
        encode_table([rule])


def test_there_is_a_limit_to_the_rules() -> None:
    """The plugin reads no more."""
    rule = Rule("allreduce", "ring")

    assert MAX_RULES == len(decode_table(encode_table([rule] * MAX_RULES)))
    with pytest.raises(ConfigError, match="4097 rules are too many"):
        encode_table([rule] * (MAX_RULES + 1))


def test_a_table_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A reader of the old table keeps it, and no other file lies in the folder."""
    path = tmp_path / "new" / "table"
    write_table(path, [Rule("allreduce", "ring")])

    with path.open("rb") as old:
        write_table(path, [Rule("reduce", "tree")])

        assert (Rule("allreduce", "ring"),) == decode_table(old.read())
    assert (Rule("reduce", "tree"),) == decode_table(path.read_bytes())
    assert [path] == list(path.parent.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error names the folder if a file is in its place."""
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"file/table cannot be written"):
        write_table(tmp_path / "file" / "table", [Rule("reduce", "tree")])
