# SPDX-License-Identifier: Apache-2.0
"""One run of `ringtune bench`: launches every contestant in each round, in an order drawn anew, and reports."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ringtune.errors import ConfigError
from ringtune.identity.fingerprints import machine_facts
from ringtune.system.output_files import write_output_file

from .contestants import LIMIT_NAME, PEERS, BenchEnvironment, Contestant, find_contestants
from .launching import OverrunError, launch, rows_in
from .results import ResultRow, Summary, summarize
from .table import make_tables
from .text_formats import FORMATS, print_text
from .timing import Scheme
from .trace import Trace, make_trace_table, take_trace
from .workloads import ELEMENT_BYTES, Workload

NO_PEER = "none"
JSON_SCHEMA = 2


@dataclass(frozen=True)
class Request:
    """A comparison that the command line asked for.

    Attributes:
        peers: Names out of `PEERS`, or `none`; empty for all that are there.
        ranks: Number of ranks.
        sizes_bytes: Bytes of single allreduces.
        rounds: Number of launches of each contestant.
        environments: The folder that holds `.venv-mpich` and the like.
        json_file: File for all rows; None for none.
        workloads: Gradients of steps.
        settings: Variables for one more contestant, the engine under them; none without any.
        is_traced: Whether to show where the engine's time goes, too.
        text_format: One of `FORMATS`, for single allreduces alone; the first has tables.
    """

    peers: tuple[str, ...]
    ranks: int
    sizes_bytes: tuple[int, ...]
    rounds: int
    environments: Path
    json_file: Path | None = None
    workloads: tuple[Workload, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    is_traced: bool = False
    text_format: str = FORMATS[0]

    def check(self) -> None:
        """Raise `ConfigError` for a request that cannot be measured."""
        if self.ranks < 2:
            raise ConfigError(f"-np {self.ranks}: an allreduce has at least 2 ranks")
        if self.rounds < 1:
            raise ConfigError(f"--rounds {self.rounds}: there must be at least 1; intervals take 6")
        for size_bytes in self.sizes_bytes:
            if size_bytes < ELEMENT_BYTES or size_bytes % ELEMENT_BYTES:
                raise ConfigError(f"--sizes: {size_bytes} bytes are no whole number of float32; give multiples of 4")
        if not self.sizes_bytes and not self.workloads:
            raise ConfigError("--sizes is empty; give sizes such as 1KiB,1MiB")
        self._check_format()
        if self.json_file is not None and not self.json_file.absolute().parent.is_dir():
            raise ConfigError(f"--json {self.json_file}: there is no folder {self.json_file.absolute().parent}")

    def _check_format(self) -> None:
        if self.text_format not in FORMATS:
            raise ConfigError(f"--format {self.text_format} is not known; known are {', '.join(FORMATS)}")
        if self.text_format != FORMATS[0] and (self.workloads or self.is_traced):
            raise ConfigError(f"--format {self.text_format} has no place for --workload or --trace; leave them out")


def run_bench(request: Request, environ: Mapping[str, str], output: Console, progress: Console) -> None:
    """Measure, print the table and write the file.

    Args:
        request: Measurement that the command line asked for.
        environ: The process's environment.
        output: Console for the table.
        progress: Console for the progress bar and notes.

    Raises:
        ConfigError: If the request cannot be measured here.
        RingtuneError: If a contestant fails.
    """
    request.check()
    surroundings = BenchEnvironment(request.ranks, request.environments, environ, request.settings)
    peers = [name for name in request.peers or PEERS if name != NO_PEER]
    contestants, missing = find_contestants(peers, surroundings)
    for note in missing:
        progress.print(note, soft_wrap=True, highlight=False, markup=False)
    scheme = Scheme(request.sizes_bytes, request.workloads)
    rows, too_slow = measure(contestants, scheme, request.rounds, surroundings, progress)
    missing = [*missing, *too_slow]
    summaries = summarize(rows, LIMIT_NAME, peers)
    traces = take_trace(scheme, surroundings) if request.is_traced else []
    write_results(request, missing, summaries, rows, traces)
    if request.text_format != FORMATS[0]:
        print_text(output, request.text_format, summaries, request.ranks)
        return
    for table in make_tables(summaries, request.ranks, request.rounds):
        output.print(table)
    if traces:
        output.print(make_trace_table(traces, request.ranks))


def measure(
    contestants: Sequence[Contestant], scheme: Scheme, rounds: int, surroundings: BenchEnvironment, console: Console
) -> tuple[list[ResultRow], list[str]]:
    """Launch every contestant in each round, in an order drawn anew.

    A peer that takes too long is launched no more; its measurements until then count.

    Returns:
        All rows, and notes on the contestants left out.

    Raises:
        RingtuneError: If a contestant fails, or one that is no peer takes too long.
    """
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    rows: list[ResultRow] = []
    too_slow: dict[str, str] = {}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("launches", total=rounds * len(contestants))
        for number in range(rounds):
            for contestant in order.sample(contestants, len(contestants)):
                progress.update(task, description=contestant.name)
                try:
                    if contestant.name not in too_slow:
                        rows += launch(contestant, scheme, surroundings, number)
                except OverrunError as error:
                    if not contestant.is_peer:
                        raise
                    rows += rows_in(error.output, number, contestant.name)
                    too_slow[contestant.name] = f"{error}; it is launched no more"
                    console.print(too_slow[contestant.name], soft_wrap=True, highlight=False, markup=False)
                progress.advance(task)
    return rows, list(too_slow.values())


def write_results(
    request: Request,
    missing: Sequence[str],
    summaries: Sequence[Summary],
    rows: Sequence[ResultRow],
    traces: Sequence[Trace] = (),
) -> None:
    """Write all that was found to the request's file, if it has one; raises `ConfigError` where that cannot be."""
    path = request.json_file
    if path is None:
        return
    contents = {
        "schema": JSON_SCHEMA,
        "machine": machine_facts(),
        "settings": dict(request.settings),
        "not_measured": list(missing),
        "summaries": [asdict(summary) for summary in summaries],
        "rows": [asdict(row) for row in rows],
        "traces": [asdict(trace) for trace in traces],
    }
    try:
        write_output_file(path, f"{json.dumps(contents, indent=1)}\n".encode())
    except OSError as error:
        raise ConfigError(f"--json {path} cannot be written ({error.strerror}); give another path") from error
