# SPDX-License-Identifier: Apache-2.0
"""`ringtune bench --record-surface`: how long steps take under every config of a grid, on the real engine.

The grid is measured several times, each time in an order of its own. A repeat is cut into launches, so that
differences between launches are in the record, and each launch begins with the baseline. A recording can be ended at
any moment, by its time limit or by force, and goes on where it stood when it is started again.
"""

import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ringtune import _engine
from ringtune.errors import ConfigError, RingtuneError
from ringtune.identity.fingerprints import SURFACE_VERSION, machine_facts
from ringtune.system.child_process import Child
from ringtune.tuner import Config
from ringtune.version import __version__

from .contestants import BenchEnvironment
from .network import Network, check_hosts, joined_hosts, parse_rate
from .network_comparison import Topology
from .surface_assignment import Assignment
from .surface_file import JOURNAL_SUFFIX, SCHEMA, Header, RecordedWindow, SurfaceJournal, write_surface
from .surface_grid import Grid, grid_configs, turns
from .workloads import Workload

MIB = 1024 * 1024
COMPUTE_MS_PER_MIB = 0.5
"""A step of ResNet-50 then computes for 49 ms, about enough to hide its gradients on one host: all knobs matter."""
LAUNCH_WINDOWS = 20
"""A launch measures so many windows beside the baseline's."""
SILENCE_LIMIT_S = 900.0
"""A launch that has not measured a window by then hangs: the longest one asked for so far takes six minutes."""
_LINES_OF_ERROR = 20


@dataclass(frozen=True)
class SurfaceRequest:
    """A recording that the command line asked for.

    Attributes:
        file: File of the surface; the journal is beside it.
        ranks: Number of ranks.
        workload: The gradients of a step.
        repeats: Number of times that the grid is measured.
        grid: The numbers' values.
        compute_ms: Processor time of a step; None: COMPUTE_MS_PER_MIB of the gradients.
        window_ms: About how long a window is.
        minutes: Stop after so long; None: when all is recorded.
    """

    file: Path
    ranks: int
    workload: Workload
    repeats: int = 5
    grid: Grid = field(default_factory=Grid)
    compute_ms: float | None = None
    window_ms: float = 600.0
    minutes: float | None = None

    @property
    def step_compute_ms(self) -> float:
        """Processor time of a step, milliseconds."""
        share = COMPUTE_MS_PER_MIB * self.workload.bytes / MIB
        return round(share, 3) if self.compute_ms is None else self.compute_ms

    def check(self) -> None:
        """Raise `ConfigError` for a request that cannot be recorded."""
        if self.ranks < 2:
            raise ConfigError(f"-np {self.ranks}: an allreduce has at least 2 ranks")
        if self.repeats < 1:
            raise ConfigError(f"--rounds {self.repeats}: the grid must be measured at least once")
        if self.minutes is not None and self.minutes <= 0:
            raise ConfigError(f"--minutes {self.minutes:g}: give more than 0, or leave it out")
        if self.step_compute_ms <= 0:
            raise ConfigError(f"--compute-ms {self.compute_ms:g}: steps that compute nothing hide nothing; give more")
        if not self.file.absolute().parent.is_dir():
            raise ConfigError(f"--record-surface {self.file}: there is no folder {self.file.absolute().parent}")


def record_surface(
    request: SurfaceRequest, topology: Topology | None, environ: Mapping[str, str], console: Console
) -> bool:
    """Record until all is there or the time is over.

    Args:
        request: Recording that the command line asked for.
        topology: Hosts and links to measure between; None: this host alone.
        environ: The process's environment.
        console: Console for the progress bar and notes.

    Returns:
        Whether the surface is complete; only then its file is there.

    Raises:
        ConfigError: If it cannot be recorded here.
        RingtuneError: If a launch fails.
    """
    request.check()
    journal_file = Path(f"{request.file}{JOURNAL_SUFFIX}")
    if request.file.exists():
        journal_file.unlink(missing_ok=True)  # left where the recorder was killed between its last two moves
        console.print(f"{request.file} is complete; remove it to record it again", highlight=False, markup=False)
        return True
    hosts = 1 if topology is None else topology.hosts
    rate = None if topology is None else parse_rate(topology.link)
    if topology is not None:
        check_hosts(hosts, request.ranks)
    layout = (request.ranks // hosts,) * hosts
    configs = grid_configs(request.grid, layout, _engine.allreduce_algorithms())
    journal = SurfaceJournal(journal_file, _header(request, layout, rate, configs[0]))
    with nullcontext(None) if rate is None else joined_hosts(hosts, rate) as network:
        is_complete = _Recorder(request, configs, journal, network, environ).run(console)
    if is_complete:
        baseline = configs[0].to_json()
        differences = [
            {name: value for name, value in config.to_json().items() if value != baseline[name]} for config in configs
        ]
        write_surface(request.file, journal, differences)
        journal_file.unlink()
    return is_complete


class _Recorder:
    """One start of a recording."""

    def __init__(
        self,
        request: SurfaceRequest,
        configs: Sequence[Config],
        journal: SurfaceJournal,
        network: Network | None,
        environ: Mapping[str, str],
    ) -> None:
        self._request = request
        self._configs = configs
        self._journal = journal
        self._network = network
        self._environ = BenchEnvironment(request.ranks, Path(), environ).cleaned
        limit = request.minutes
        self._end_s = None if limit is None else time.monotonic() + 60.0 * limit

    def run(self, console: Console) -> bool:
        """Measure the missing windows; return whether the recording is complete."""
        total = self._request.repeats * len(self._configs)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            done = sum(len(self._journal.done(repeat)) for repeat in range(self._request.repeats))
            task = progress.add_task(f"windows of {self._request.file.name}", total=total, completed=done)
            for repeat in range(self._request.repeats):
                while missing := self._missing(repeat):
                    if self._is_late:
                        return False
                    for _ in self._launch(repeat, missing[:LAUNCH_WINDOWS]):
                        progress.advance(task)
        return True

    @property
    def _is_late(self) -> bool:
        return self._end_s is not None and time.monotonic() >= self._end_s

    def _missing(self, repeat: int) -> list[int]:
        done = self._journal.done(repeat)
        return [number for number in turns(self._configs, repeat) if number not in done]

    def _launch(self, repeat: int, numbers: Sequence[int]) -> Iterator[None]:
        """Measure configs, the baseline before them, and keep each window; yield after each that is not extra."""
        launch, order = self._journal.launches, [0, *numbers]
        with Child(self._command(order), self._environ, has_session=False) as child:
            for record in _records(child):
                if "calls" in record:
                    self._journal.begin(record["calls"])
                    continue
                turn = int(record["turn"])
                self._journal.add(
                    RecordedWindow(
                        order[turn], repeat, launch, record["at_s"], tuple(record["step_ms"]), is_extra=turn == 0
                    )
                )
                if turn > 0:
                    yield
                if self._is_late:
                    return

    def _command(self, order: Sequence[int]) -> list[str]:
        request, network = self._request, self._network
        configs = tuple(self._configs[number].to_json() for number in order)
        assignment = Assignment(request.workload.argument(), request.step_compute_ms, request.window_ms, configs)
        remote = [] if network is None else ["-H", network.places(request.ranks), "--rsh", str(network.remote_shell)]
        start = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(request.ranks), *remote, "--no-prefix-output"]
        command = [*start, sys.executable, "-m", "ringtune.measuring.bench.surface_rank", assignment.argument()]
        return command if network is None else network.hosts[0].launcher_command(*command)


def _records(child: Child) -> Iterator[dict[str, Any]]:
    """Yield the records of a launch as they come.

    Raises:
        RingtuneError: If it fails, or is silent for too long.
    """
    try:
        while (line := child.next_line(SILENCE_LIMIT_S)) is not None:
            if line.startswith(b'{"'):
                yield json.loads(line)
        child.ends_within(None)
    except TimeoutError:  # it is killed
        pass
    code = child.end(0)
    if code != 0:
        text = "\n".join(child.said.strip().splitlines()[-_LINES_OF_ERROR:])
        raise RingtuneError(
            f"a launch of the surface's ended with exit code {code}; what was measured is kept, start it again to go "
            f"on\n{text}"
        )


def _header(request: SurfaceRequest, layout: Sequence[int], rate: int | None, baseline: Config) -> Header:
    versions = {"ringtune": __version__, "surface": SURFACE_VERSION, "kernel": platform.release()}
    return {
        "schema": SCHEMA,
        "workload": request.workload.name,
        "gradient_bytes": [4 * gradient.elements for gradient in request.workload.gradients],
        "compute_ms": request.step_compute_ms,
        "window_ms": request.window_ms,
        "ranks_per_host": list(layout),
        "link_bits_per_s": rate,
        "machine": machine_facts(),
        "versions": versions,
        "baseline": baseline.to_json(),
        "grid": {"fusion_bytes": list(request.grid.fusion_bytes), "cycle_ms": list(request.grid.cycle_ms)},
        "repeats": request.repeats,
        "calls": [],
    }
