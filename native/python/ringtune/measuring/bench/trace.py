# SPDX-License-Identifier: Apache-2.0
"""Breakdown of an allreduce's time: the engine's laps, from a launch with its stopwatch on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.table import Table

from .contestants import BenchEnvironment, Contestant, engine_program
from .launching import output_of
from .table import subject_text, time_text
from .timing import Scheme


@dataclass(frozen=True)
class Trace:
    """Cost of one call to rank 0, lap by lap, in one launch.

    Attributes:
        way: Kind of memory, `ordinary` or `registered`.
        workload: Name of the gradients' workload; empty for a single blocking allreduce.
        bytes: Size of the allreduce, or of all gradients.
        us: Microseconds per call in each of the engine's laps, in their order.
    """

    way: str
    workload: str
    bytes: int
    us: Mapping[str, float]


def take_trace(scheme: Scheme, surroundings: BenchEnvironment) -> list[Trace]:
    """Launch the engine once more, with its stopwatch on.

    Args:
        scheme: The sizes and workloads.
        surroundings: Environment of the launch.

    Raises:
        RingtuneError: If it fails or takes too long.
    """
    tracer = Contestant("trace", is_peer=False, command=engine_program(surroundings, "trace"))
    lines = output_of(tracer, scheme, surroundings).splitlines()
    return [Trace(**json.loads(line)) for line in lines if line.startswith('{"way"')]


def make_trace_table(traces: Sequence[Trace], ranks: int) -> Table:
    """Return a table with a section per subject, a line per lap and a column per kind of memory.

    Args:
        traces: Traces by subject.
        ranks: Number of ranks.
    """
    ways = list(dict.fromkeys(trace.way for trace in traces))
    table = Table(title=f"where the time goes, us per call or step on rank 0 of {ranks}")
    for heading in ("size or workload", "lap"):
        table.add_column(heading)
    for way in ways:
        table.add_column(way, justify="right")
    for (workload, size_bytes), group in groupby(traces, lambda trace: (trace.workload, trace.bytes)):
        us_of = {trace.way: trace.us for trace in group}
        table.add_row(subject_text(workload, size_bytes), "all", *(_us_text(sum(us_of[way].values())) for way in ways))
        for lap in us_of[ways[0]]:
            times = [_us_text(us_of[way][lap]) for way in ways]
            if any(times):
                table.add_row("", lap, *times)
        table.add_section()
    return table


def _us_text(us: float) -> str:
    return time_text(us) if us else ""
