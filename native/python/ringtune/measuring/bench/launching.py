# SPDX-License-Identifier: Apache-2.0
"""Runs one contestant, once."""

import json
import shlex
import subprocess
from collections.abc import Collection

from ringtune.errors import RingtuneError

from .contestants import BenchEnvironment, Contestant
from .results import ResultRow
from .timing import Scheme

LAUNCH_LIMIT_S = 120.0  # for sizes, and as much again for each workload; usual are some seconds
_LINES_OF_ERROR = 20


class OverrunError(RingtuneError):
    """A contestant was ended by the limit; `output` is its output until then."""

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


def launch(contestant: Contestant, scheme: Scheme, surroundings: BenchEnvironment, number: int) -> list[ResultRow]:
    """Run a contestant to its end and return its measurements.

    Args:
        contestant: Contestant to launch.
        scheme: Subjects to measure, and for how long.
        surroundings: Environment of the launch.
        number: Number of the round.

    Raises:
        OverrunError: If it does.
        RingtuneError: If it fails, or has not measured everything.
    """
    rows = rows_in(output_of(contestant, scheme, surroundings), number, contestant.name)
    measured = {(row.workload, row.bytes) for row in rows}
    if measured != scheme.subjects():
        raise RingtuneError(
            f"{contestant.name} has measured {_in_words(measured)}, not {_in_words(scheme.subjects())}; run it by "
            f"hand: {shlex.join(_command_of(contestant, scheme))}"
        )
    return rows


def output_of(contestant: Contestant, scheme: Scheme, surroundings: BenchEnvironment) -> str:
    """Run a contestant to its end and return its standard output.

    Args:
        contestant: Contestant to launch.
        scheme: Subjects to measure, and for how long.
        surroundings: Environment of the launch.

    Raises:
        OverrunError: If it does.
        RingtuneError: If it fails.
    """
    command = _command_of(contestant, scheme)
    limit_s = LAUNCH_LIMIT_S * (1 + len(scheme.workloads))
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**surroundings.cleaned, **contestant.variables},
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise OverrunError(
            f"{contestant.name} did not end within {limit_s:g} s; give fewer or smaller --sizes and --workload, or "
            f"leave it out of --against: {shlex.join(command)}",
            (error.stdout or b"").decode(errors="replace"),
        ) from error
    if finished.returncode != 0:
        output = "\n".join((finished.stdout + finished.stderr).strip().splitlines()[-_LINES_OF_ERROR:])
        advice = "run it by hand, or leave it out of --against" if contestant.is_peer else "its command"
        raise RingtuneError(
            f"{contestant.name} failed with exit code {finished.returncode}; {advice}: {shlex.join(command)}\n{output}"
        )
    return finished.stdout


def rows_in(text: str, number: int, contestant: str) -> list[ResultRow]:
    """Return the lines of JSON among whatever launchers have written, as a contestant's rows of a round."""
    lines = [line for line in text.splitlines() if line.startswith('{"way"')]
    return [ResultRow(round=number, contestant=contestant, **json.loads(line)) for line in lines]


def _in_words(subjects: Collection[tuple[str, int]]) -> str:
    """Return workloads and sizes, as messages name them."""
    return ", ".join(f"{workload} {size_bytes} bytes".strip() for workload, size_bytes in sorted(subjects)) or "nothing"


def _command_of(contestant: Contestant, scheme: Scheme) -> list[str]:
    return [*contestant.command, *scheme.arguments()]
