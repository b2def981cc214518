# SPDX-License-Identifier: Apache-2.0
"""One run of `ringtune bench`: launches every contestant in each round, in an order drawn anew, and reports."""

import json
import random
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ringtune.errors import ConfigError, RingtuneError
from ringtune.fingerprints import machine_facts

from .contestants import PEERS, Contestant, Surroundings, find_contestants
from .results import Row, summarize
from .table import make_table
from .timing import Scheme

LIMIT_WAYS = ("staged", "registered")
NO_PEER = "none"
LAUNCH_LIMIT_S = 300.0
_ELEMENT_BYTES = 4
_LINES_OF_ERROR = 20
JSON_SCHEMA = 1


@dataclass(frozen=True)
class Request:
    """What the command line asked for.

    Attributes:
        peers: Names out of `PEERS`, or `none`; empty for all that are there.
        ranks: Number of ranks.
        sizes_bytes: Bytes of each allreduce.
        rounds: How often each contestant is launched.
        environments: The folder that holds `.venv-mpich` and the like.
        json_file: Where all rows go; None for nowhere.
    """

    peers: tuple[str, ...]
    ranks: int
    sizes_bytes: tuple[int, ...]
    rounds: int
    environments: Path
    json_file: Path | None = None

    def check(self) -> None:
        """Raise `ConfigError` for what cannot be measured."""
        if self.ranks < 2:
            raise ConfigError(f"-np {self.ranks}: an allreduce has at least 2 ranks")
        if self.rounds < 1:
            raise ConfigError(f"--rounds {self.rounds}: there must be at least 1; intervals take 6")
        for size_bytes in self.sizes_bytes:
            if size_bytes < _ELEMENT_BYTES or size_bytes % _ELEMENT_BYTES:
                raise ConfigError(f"--sizes: {size_bytes} bytes are no whole number of float32; give multiples of 4")
        if not self.sizes_bytes:
            raise ConfigError("--sizes is empty; give sizes such as 1KiB,1MiB")
        if self.json_file is not None and not self.json_file.absolute().parent.is_dir():
            raise ConfigError(f"--json {self.json_file}: there is no folder {self.json_file.absolute().parent}")


def run_bench(request: Request, environ: Mapping[str, str], output: Console, progress: Console) -> None:
    """Measure, print the table and write the file.

    Args:
        request: What to measure.
        environ: The process's environment.
        output: Where the table goes.
        progress: Where the progress bar and notes go.

    Raises:
        ConfigError: If the request cannot be measured here.
        RingtuneError: If a contestant fails.
    """
    request.check()
    surroundings = Surroundings(request.ranks, request.environments, environ)
    peers = request.peers or PEERS
    contestants, missing = find_contestants([name for name in peers if name != NO_PEER], surroundings)
    for note in missing:
        progress.print(note, soft_wrap=True, highlight=False, markup=False)
    scheme = Scheme(request.sizes_bytes)
    rows = _measure(contestants, scheme, request.rounds, surroundings, progress)
    if request.json_file is not None:
        _write(request.json_file, rows, missing)
    peer_names = [contestant.name for contestant in contestants if contestant.is_peer]
    output.print(make_table(summarize(rows, LIMIT_WAYS, peer_names), request.ranks, request.rounds))


def _measure(
    contestants: Sequence[Contestant], scheme: Scheme, rounds: int, surroundings: Surroundings, console: Console
) -> list[Row]:
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    rows: list[Row] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("launches", total=rounds * len(contestants))
        for number in range(rounds):
            for contestant in order.sample(contestants, len(contestants)):
                progress.update(task, description=contestant.name)
                rows += launch(contestant, scheme, surroundings, number)
                progress.advance(task)
    return rows


def launch(contestant: Contestant, scheme: Scheme, surroundings: Surroundings, number: int) -> list[Row]:
    """Run a contestant to its end and return what it has measured.

    Args:
        contestant: Whom to launch.
        scheme: What to measure.
        surroundings: With which environment.
        number: Of the round.

    Raises:
        RingtuneError: If it fails, takes too long, or has not measured every size.
    """
    command = [*contestant.command, *scheme.arguments()]
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**surroundings.cleaned, **contestant.variables},
            timeout=LAUNCH_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RingtuneError(
            f"{contestant.name} did not end within {LAUNCH_LIMIT_S:g} s; give fewer or smaller --sizes, or leave it "
            f"out of --against: {shlex.join(command)}"
        ) from error
    if finished.returncode != 0:
        said = "\n".join((finished.stdout + finished.stderr).strip().splitlines()[-_LINES_OF_ERROR:])
        raise RingtuneError(
            f"{contestant.name} failed with exit code {finished.returncode}; run it by hand, or leave it out of "
            f"--against: {shlex.join(command)}\n{said}"
        )
    rows = rows_in(finished.stdout, number)
    measured = {row.bytes for row in rows}
    if measured != set(scheme.sizes_bytes):
        raise RingtuneError(f"{contestant.name} has measured {sorted(measured)}, not {sorted(scheme.sizes_bytes)}")
    return rows


def rows_in(text: str, number: int) -> list[Row]:
    """Return the lines of JSON among whatever launchers have written, as rows of a round."""
    return [Row(round=number, **json.loads(line)) for line in text.splitlines() if line.startswith('{"way"')]


def _write(path: Path, rows: Sequence[Row], missing: Sequence[str]) -> None:
    contents = {
        "schema": JSON_SCHEMA,
        "machine": machine_facts(),
        "not_measured": list(missing),
        "rows": [asdict(row) for row in rows],
    }
    try:
        path.write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--json {path} cannot be written ({error})") from error
