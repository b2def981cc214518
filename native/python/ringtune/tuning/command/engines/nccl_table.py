# SPDX-License-Identifier: Apache-2.0
"""The table of our NCCL tuner plugin: which algorithm, protocol and channels for which collective, size and job.

The layout is native/nccl_tuner/table.h's, version 2, little-endian:

| part | content |
|---|---|
| header, 16 bytes | magic `RTNCCLT` and a zero byte, version (u32), number of rules (u32) |
| a rule, 48 bytes | least, most bytes (u64), nodes, ranks (u32); collective, algorithm, protocol, channels (i32) |
| 12 bytes more of it | registered (i32); least, most operations per channel (u32) |
| trailer, 4 bytes | CRC-32 (as in zlib) of all before it |

In a file's order the first rule that fits holds. Version 1, still read, has rules that end with the channels.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.tuning.command.atomic_file import replace_file

TABLE_VARIABLE = "RINGTUNE_NCCL_TABLE"
"""Names the table's file to the plugin, in every rank's environment."""
MAGIC = b"RTNCCLT\0"
VERSION = 2
MAX_RULES = 4096
MAX_CHANNELS = 64
ANY = -1
MAX_U32, MAX_U64 = 2**32 - 1, 2**64 - 1
COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
"""Names in the order of NCCL's numbers, as are the two below."""
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
_HEADER = struct.Struct("<8sII")
_RULES = {1: struct.Struct("<QQIIIIiiii"), 2: struct.Struct("<QQIIIIiiiiiII")}
"""The layout of a rule by the table's version."""
_EVERY_CALL = (ANY, 0, MAX_U32)
"""The registered buffers and operations per channel of a rule of version 1, which knows neither: any."""
_TRAILER = struct.Struct("<I")


@dataclass(frozen=True)
class Rule:
    """A rule of the table: the choice for some calls of a collective.

    Attributes:
        collective: One of `COLLECTIVES`.
        algorithm: One of `ALGORITHMS`; None leaves it to NCCL.
        protocol: One of `PROTOCOLS`; None leaves it to NCCL.
        channels: Number of channels, at most `MAX_CHANNELS`; 0 leaves it to NCCL.
        bytes_range: Least and most bytes, as NCCL counts them for the collective.
        nodes_range: Least and most nodes of the communicator.
        ranks_range: Least and most ranks of the communicator.
        registered: True for buffers that are registered with NCCL, false for the others; None for both.
        pipe_ops_range: Least and most operations per channel, as NCCL estimates them for a group of calls.
    """

    collective: str
    algorithm: str | None = None
    protocol: str | None = None
    channels: int = 0
    bytes_range: tuple[int, int] = (0, MAX_U64)
    nodes_range: tuple[int, int] = (0, MAX_U32)
    ranks_range: tuple[int, int] = (0, MAX_U32)
    registered: bool | None = None
    pipe_ops_range: tuple[int, int] = (0, MAX_U32)


def encode_table(rules: Sequence[Rule]) -> bytes:
    """Return a table's bytes.

    Raises:
        ConfigError: If there are too many rules, or one decides no value, knows a name that NCCL does not, or has an
            empty or too large range.
    """
    if len(rules) > MAX_RULES:
        raise ConfigError(f"{len(rules)} rules are too many for the NCCL tuner's table; at most {MAX_RULES}")
    body = b"".join([_HEADER.pack(MAGIC, VERSION, len(rules)), *(_encoded(rule) for rule in rules)])
    return body + _TRAILER.pack(zlib.crc32(body))


def write_table(path: Path, rules: Sequence[Rule]) -> None:
    """Replace a table's file as a whole: a reader meets the old table or the new one.

    Raises:
        ConfigError: As `encode_table`, or if the file cannot be written.
    """
    replace_file(path, encode_table(rules))


def decode_table(data: bytes) -> tuple[Rule, ...]:
    """Return the rules in a table's bytes.

    Raises:
        ConfigError: If they are no table of this version, or damaged.
    """
    if len(data) < _HEADER.size + _TRAILER.size or not data.startswith(MAGIC):
        raise ConfigError("this is no table of ringtune's NCCL tuner; give a file that `ringtune tune` has written")
    _, version, count = _HEADER.unpack_from(data)
    if version not in _RULES:
        raise ConfigError(f"the NCCL tuner's table has version {version}, this program reads versions 1 to {VERSION}")
    layout = _RULES[version]
    end = _HEADER.size + count * layout.size
    if len(data) != end + _TRAILER.size or _TRAILER.unpack_from(data, end)[0] != zlib.crc32(data[:end]):
        raise ConfigError(f"the NCCL tuner's table is damaged ({len(data)} bytes for {count} rules); write it again")
    found = layout.iter_unpack(data[_HEADER.size : end])
    return tuple(_decoded(fields if version > 1 else (*fields, *_EVERY_CALL)) for fields in found)


def _encoded(rule: Rule) -> bytes:
    _check(rule)
    algorithm = ANY if rule.algorithm is None else ALGORITHMS.index(rule.algorithm)
    protocol = ANY if rule.protocol is None else PROTOCOLS.index(rule.protocol)
    ranges = (*rule.bytes_range, *rule.nodes_range, *rule.ranks_range)
    registered = ANY if rule.registered is None else int(rule.registered)
    choice = (COLLECTIVES.index(rule.collective), algorithm, protocol, rule.channels)
    return _RULES[VERSION].pack(*ranges, *choice, registered, *rule.pipe_ops_range)


def _check(rule: Rule) -> None:
    known = ((rule.collective, COLLECTIVES), (rule.algorithm, (None, *ALGORITHMS)), (rule.protocol, (None, *PROTOCOLS)))
    wrong = [str(name) for name, names in known if name not in names]
    ranges = (rule.bytes_range, rule.nodes_range, rule.ranks_range, rule.pipe_ops_range)
    limits = zip(ranges, (MAX_U64, MAX_U32, MAX_U32, MAX_U32), strict=True)
    wrong += [f"{least} to {most}" for (least, most), limit in limits if not 0 <= least <= most <= limit]
    if not 0 <= rule.channels <= MAX_CHANNELS:
        wrong.append(f"{rule.channels} channels")
    if rule.algorithm is None and rule.protocol is None and rule.channels == 0:
        wrong.append("nothing to do")
    if wrong:
        raise ConfigError(f"a rule of the NCCL tuner's table is not possible: {', '.join(wrong)}; in {rule}")


def _decoded(fields: tuple[int, ...]) -> Rule:
    collective, algorithm, protocol, channels, registered, least_pipe_ops, most_pipe_ops = fields[6:]
    try:
        rule = Rule(
            COLLECTIVES[_index(collective)],
            None if algorithm == ANY else ALGORITHMS[_index(algorithm)],
            None if protocol == ANY else PROTOCOLS[_index(protocol)],
            channels,
            (fields[0], fields[1]),
            (fields[2], fields[3]),
            (fields[4], fields[5]),
            None if registered == ANY else (False, True)[_index(registered)],
            (least_pipe_ops, most_pipe_ops),
        )
    except IndexError:
        raise ConfigError(f"the NCCL tuner's table has a rule with unknown numbers: {fields[6:]}") from None
    _check(rule)
    return rule


def _index(number: int) -> int:
    """Return an index that is not taken from the end; IndexError for those."""
    if number < 0:
        raise IndexError(number)
    return number
