# SPDX-License-Identifier: Apache-2.0
"""The caller's side of `ringtune.run`: writes the call into a private folder, starts `ringtune run`, reads the results.

The launcher is a process of its own, tied to this one's life, so that it works from any thread and in any program, a
notebook's kernel too. The one signal handler that it changes is that of SIGTERM, while it runs on the main thread of a
program that has none: a program that is ended by it then ends its job as well.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ringtune._engine import allreduce_algorithms
from ringtune.errors import ConfigError
from ringtune.launch import make_elastic_plan, make_plan
from ringtune.meeting.bootstrap import environment
from ringtune.settings.settings import Settings
from ringtune.system.child_process import Child, Tie

from .call_folder import CallFolder, new_call_folder
from .elastic_results import elastic_results
from .failures import RankFailedError
from .function_transport import Described, describe
from .horovod_options import LaunchArguments
from .packing import read_data, write_data


class _Terminated(BaseException):
    """SIGTERM came."""


def run(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    launch: LaunchArguments,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> list[Any]:
    """Run a function on ranks; see `ringtune.run`."""
    if timeout_s is not None and not timeout_s > 0:
        raise ConfigError(f"ringtune.run(timeout_s={timeout_s}) is not possible; allowed: over 0 s, or None")
    described = describe(function)
    parent = Path.cwd() if launch.names_others else None  # other hosts are more likely to share it than /tmp
    with _orderly_termination(), new_call_folder(parent) as folder:
        _write_call(folder, described, tuple(args), dict(kwargs or {}))
        code = _launch(folder, launch, {**environment(), **(env or {})}, timeout_s)
        return elastic_results(folder, code) if launch.is_elastic else _results(folder, launch.ranks, code)


def _write_call(folder: CallFolder, described: Described, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Leave a call in its folder, for the ranks."""
    call = {
        "module": described.module,
        "name": described.name,
        "values": described.values,
        "path": [str(entry) or os.fspath(Path.cwd()) for entry in sys.path if isinstance(entry, str)],
    }
    try:
        folder.source.write_text(described.source, encoding="utf-8")
        write_data(folder.arguments, {"args": args, "kwargs": kwargs})
        write_data(folder.call, call)
    except OSError as error:
        raise ConfigError(
            f"the call cannot be written into {folder.path} ({error.strerror}); make room, or set TMPDIR to "
            "another folder"
        ) from error


@contextmanager
def _orderly_termination() -> Iterator[None]:
    """Have SIGTERM end this process as it would, but only once the job has ended and its folder is removed.

    A program that handles SIGTERM itself, or ignores it, goes on to; and handlers run on the main thread alone.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except _Terminated:
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: object) -> None:
    """Begin to end; a second signal ends at once."""
    del frame
    signal.signal(number, signal.SIG_DFL)
    raise _Terminated


def _launch(folder: CallFolder, launch: LaunchArguments, environ: Mapping[str, str], timeout_s: float | None) -> int:
    """Run the job to its end and return its exit code.

    Raises:
        ConfigError: If it cannot be started.
        RankFailedError: If it takes too long.
        KeyboardInterrupt: Once the job has ended, if the user wants it to; so with SIGTERM.
    """
    program = [launch.executable or sys.executable, "-m", "ringtune.run_function.rank_program", str(folder.path)]
    if launch.is_elastic:
        rank_environ = make_elastic_plan(program, {}, environ).environment
    else:
        rank_environ = make_plan(program, launch.ranks, {}, environ).environments[0]
    Settings.from_environment(rank_environ, allreduce_algorithms())  # an error here, not one in the job
    options = ["-np", str(launch.ranks), "--no-prefix-output", *launch.options]
    launcher = [sys.executable, "-m", "ringtune", "run", *options, *program]
    try:
        child = Child(launcher, environ, stdout=None, stderr=None, tie=Tie.CHILD)
    except OSError as error:
        raise ConfigError(f"the launcher cannot be started ({error}); check the limits of processes") from error
    with child:
        try:
            is_over = child.ends_within(timeout_s)
        except KeyboardInterrupt:
            child.end(number=signal.SIGINT)
            raise
    if not is_over:
        raise RankFailedError(f"the ranks had not returned after {timeout_s:g} s, the limit timeout_s; they were ended")
    return child.end()


def _results(folder: CallFolder, ranks: int, code: int) -> list[Any]:
    """Return every rank's result, or raise the error of the first rank that failed."""
    outcomes = {rank: read_data(folder.outcome(rank)) for rank in range(ranks) if folder.outcome(rank).exists()}
    silent = sorted(set(range(ranks)) - set(outcomes))
    failures = [(outcome["at_s"], rank) for rank, outcome in outcomes.items() if "error" in outcome]
    if failures:
        _, rank = min(failures)
        text = outcomes[rank]["traceback"]
        raise RankFailedError(f"rank {rank} of {ranks} raised {outcomes[rank]['error']}\n\n{text}", rank, text)
    if silent or code:
        raise _silent_failure(silent, ranks, code)
    return [outcome["result"] for outcome in outcomes.values()]


def _silent_failure(silent: Sequence[int], ranks: int, code: int) -> RankFailedError:
    who = f"rank {', '.join(map(str, silent))}" if silent else "a rank, after its function had returned,"
    return RankFailedError(
        f"{who} of {ranks} ended without a result (exit code {code} of the job); what the launcher and the ranks have "
        "said on standard error tells more",
        min(silent, default=None),
    )
