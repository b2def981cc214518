# SPDX-License-Identifier: Apache-2.0
"""Where the time of an allreduce goes: the engine's laps, from a launch with its stopwatch on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from .contestants import Contestant, Surroundings, engine_program
from .launching import output_of
from .table import subject_text, time_text
from .timing import Scheme


@dataclass(frozen=True)
class Trace:
    """What one call cost rank 0, lap by lap, in one launch.

    Attributes:
        way: In which kind of memory, `ordinary` or `registered`.
        workload: Whose gradients; empty for a single blocking allreduce.
        bytes: Of the allreduce, or of all gradients.
        us: Microseconds per call in each of the engine's laps, in their order.
    """

    way: str
    workload: str
    bytes: int
    us: Mapping[str, float]


def take_trace(scheme: Scheme, surroundings: Surroundings) -> list[Trace]:
    """Launch the engine once more, with its stopwatch on.

    Args:
        scheme: The sizes and workloads.
        surroundings: With which environment.

    Raises:
        RingtuneError: If it fails or takes too long.
    """
    tracer = Contestant("trace", is_peer=False, command=engine_program(surroundings, "trace"))
    lines = output_of(tracer, scheme, surroundings).splitlines()
    return [Trace(**json.loads(line)) for line in lines if line.startswith('{"way"')]


def make_trace_table(traces: Sequence[Trace], ranks: int) -> Table:
    """Return a table with a line per lap and a column per subject and kind of memory.

    Args:
        traces: At least one.
        ranks: Number of ranks.
    """
    table = Table(title=f"where the time goes, us per call or step on rank 0 of {ranks}", show_footer=True)
    table.add_column("lap", footer="all")
    for trace in traces:
        heading = f"{subject_text(trace.workload, trace.bytes)}\n{trace.way}"
        table.add_column(heading, justify="right", footer=time_text(sum(trace.us.values())))
    for lap in traces[0].us:
        if any(trace.us[lap] for trace in traces):
            table.add_row(lap, *(time_text(trace.us[lap]) if trace.us[lap] else "" for trace in traces))
    return table
