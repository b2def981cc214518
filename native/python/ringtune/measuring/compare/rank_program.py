# SPDX-License-Identifier: Apache-2.0
"""One rank of a comparison: `python -m ringtune.measuring.compare.rank_program ORDER PROGRAM ARGUMENTS...`.

It runs the user's program as Python would, with torch's variables set as torchrun sets them. Once the program has
imported torch, steps are counted and DDP is served by the library of the order; likewise `ringtune.torch`.
"""

import atexit
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ringtune.meeting.bootstrap import environment
from ringtune.meeting.bootstrap.torch_variables import tell_torch

from .import_watch import ImportWatch
from .messages import ENGINE_SESSION, RecordWriter, RunOrder
from .script_facts import ASKED_FOR, NotComparable, Refusal, ScriptFacts


def main(arguments: Sequence[str]) -> None:
    """Run the program and end this process; an error of the program's own ends it as without a comparison."""
    order, (program, *rest) = RunOrder.from_argument(arguments[0]), arguments[1:]
    tell_torch(order.master_address, order.master_port)
    rank = int(environment()["RINGTUNE_RANK"])
    reporter = RecordWriter(order.token)
    reports: list[Callable[[], None]] = []
    ImportWatch(_patches(order, reporter, reports, is_measuring=rank == 0)).install()
    code = 0
    try:
        _run(program, rest, is_module=order.is_module)
    except SystemExit as ended:  # enough steps, a reason against the comparison, or the script's own sys.exit()
        code = 0 if ended.code is None else ended.code if isinstance(ended.code, int) else 1
        if isinstance(ended, NotComparable):
            _leave(code)
        if code != 0:
            raise
    for report in reports:
        report()
    if rank == 0 and not reports:
        reporter.write("measured", steps=0, seconds=0.0, did_script_end=True, facts=ScriptFacts().to_json())
    _leave(code)


def _patches(
    order: RunOrder, reporter: RecordWriter, reports: list[Callable[[], None]], *, is_measuring: bool
) -> dict[str, Callable[[], None]]:
    """Return the function to call after the import of each module."""
    facts, refusal = ScriptFacts(own_groups=ASKED_FOR if order.serves_groups else ""), Refusal(reporter)
    serves_buckets = order.arm == "ringtune" and not order.serves_groups

    def watch_torch() -> None:
        import torch  # noqa: PLC0415  (the script imports it first)

        from .ddp_models import DdpModels  # noqa: PLC0415
        from .step_counter import StepCounter  # noqa: PLC0415

        facts.torch = torch.__version__
        counter = StepCounter(order, facts, reporter, is_measuring=is_measuring)
        counter.install()
        reports.append(lambda: counter.report(did_script_end=True))
        DdpModels(facts, refusal, serves_buckets=serves_buckets).install()

    def watch_ringtune() -> None:
        from .ddp_optimizer import DistributedOptimizers  # noqa: PLC0415

        DistributedOptimizers(order.arm, facts, refusal).install()

    return {"torch": watch_torch, "ringtune.torch": watch_ringtune}


def _run(program: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run a script or a module as `__main__`."""
    sys.argv[1:] = arguments
    if is_module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(program).resolve().parent)
    sys.argv[0] = program
    runpy.run_path(program, run_name="__main__")


def _leave(code: int) -> None:
    """End the process: exit handlers run, and buffered output is flushed.

    The interpreter's own end is left out: under PyTorch 2.13 a model that outlives its process group on Gloo can abort
    or hang there.
    """
    if ENGINE_SESSION in sys.modules:
        sys.modules[ENGINE_SESSION].SESSION.shutdown()
    atexit._run_exitfuncs()  # noqa: SLF001  (there is no public name)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
