# SPDX-License-Identifier: Apache-2.0
"""The NCCL tuner plugin as a library: compiled, loaded, and asked as NCCL asks it, through ctypes."""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.jobs import PROGRAMS, REPOSITORY

SOURCES = REPOSITORY / "native" / "nccl_tuner"
COMPILER = next(filter(None, map(shutil.which, ("gcc", "cc", "clang"))), None)
ALGORITHMS, PROTOCOLS = 7, 3

LOGGER = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p
)
Pointer = ctypes.POINTER(ctypes.c_void_p)
INIT_V4 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p, Pointer)
INIT_V5 = ctypes.CFUNCTYPE(
    ctypes.c_int,
    Pointer,
    ctypes.c_uint64,
    ctypes.c_size_t,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
GET = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_int),
)
END = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class TunerV4(ctypes.Structure):
    """NCCL's v4."""

    _fields_ = [("name", ctypes.c_char_p), ("init", INIT_V4), ("get", GET), ("end", END)]


class TunerV5(ctypes.Structure):
    """NCCL's v5."""

    _fields_ = [("name", ctypes.c_char_p), ("init", INIT_V5), ("get", GET), ("end", END)]


class TunerV6(ctypes.Structure):
    """NCCL's v6."""

    _fields_ = [*TunerV5._fields_, ("get_chunk_size", ctypes.c_void_p)]


STRUCTURES = {4: TunerV4, 5: TunerV5, 6: TunerV6}


@dataclass
class Answer:
    """The plugin's answer to one question."""

    costs: list[list[float]]
    channels: int

    @property
    def chosen(self) -> list[tuple[int, int]]:
        """The cells whose cost is 0."""
        return [(a, p) for a, row in enumerate(self.costs) for p, cost in enumerate(row) if cost == 0.0]


@dataclass
class Communicator:
    """The plugin in one communicator, through one version of the interface."""

    library: ctypes.CDLL
    version: int
    ranks: int = 8
    nodes: int = 2
    logs: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Initialise it as NCCL does."""
        self.tuner = STRUCTURES[self.version].in_dll(self.library, f"ncclTunerPlugin_v{self.version}")
        self.context = ctypes.c_void_p(0xBAD)
        self._logger = LOGGER(lambda level, _s, _f, _l, text, *_rest: self.logs.append((level, text.decode())))
        log = ctypes.cast(self._logger, ctypes.c_void_p)
        context = ctypes.byref(self.context)
        if self.version == 4:
            result = self.tuner.init(self.ranks, self.nodes, log, context)
        else:
            result = self.tuner.init(context, 7, self.ranks, self.nodes, log, None, None)
        assert 0 == result

    def ask(
        self,
        collective: int,
        size: int,
        costs: list[list[float]] | None = None,
        *,
        registered: bool = False,
        pipe_ops: int = 1,
    ) -> Answer:
        """Ask as NCCL does, with a table that leaves every cell possible unless another is given."""
        rows = costs or [[10.0 + 3 * a + p for p in range(PROTOCOLS)] for a in range(ALGORITHMS)]
        width = len(rows[0])
        table = (ctypes.c_float * (len(rows) * width))(*[cost for row in rows for cost in row])
        channels = ctypes.c_int(0)

        result = self.tuner.get(
            self.context,
            collective,
            size,
            pipe_ops,
            ctypes.cast(table, ctypes.c_void_p),
            len(rows),
            width,
            int(registered),
            ctypes.byref(channels),
        )

        assert 0 == result
        return Answer([list(table[a * width : (a + 1) * width]) for a in range(len(rows))], channels.value)

    def close(self) -> None:
        """End it."""
        assert 0 == self.tuner.end(self.context)


def compile_c(flags: list[str], output: Path, programs: list[str]) -> None:
    """Compile the plugin's sources, with programs of this folder."""
    sources = [*SOURCES.glob("*.c"), *(PROGRAMS / f"{name}.c" for name in programs)]
    command = [str(COMPILER), *flags, f"-I{SOURCES}", "-o", str(output), *map(str, sources)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == finished.returncode, finished.stderr


def untouched(answer: Answer) -> bool:
    """Tell whether NCCL decides."""
    return [] == answer.chosen and 0 == answer.channels


def problem_of(library: ctypes.CDLL, table: Path) -> str:
    """Return the reason in the plugin's warning, formatted: a Python callback cannot take a variadic argument list."""
    reasons: list[str] = []
    libc = ctypes.CDLL(None)
    libc.snprintf.restype = ctypes.c_int

    def take(_level: int, _system: int, _file: bytes, _line: int, text: bytes, *rest: int) -> None:
        buffer = ctypes.create_string_buffer(4096)
        arguments = [ctypes.c_void_p(value) for value in rest]
        libc.snprintf(buffer, len(buffer), text, *arguments)
        reasons.append(buffer.value.decode())

    variadic = ctypes.CFUNCTYPE(
        None,
        ctypes.c_int,
        ctypes.c_ulong,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    logger = variadic(take)
    tuner = TunerV6.in_dll(library, "ncclTunerPlugin_v6")
    context = ctypes.c_void_p()
    assert 0 == tuner.init(ctypes.byref(context), 7, 8, 2, ctypes.cast(logger, ctypes.c_void_p), None, None)
    assert [str(table) in reason for reason in reasons] == [True]
    return reasons[0]
