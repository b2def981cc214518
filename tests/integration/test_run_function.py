# SPDX-License-Identifier: Apache-2.0
"""`ringtune.run`: results by rank, errors with their traceback, and no process left behind however it ends."""

import math
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtune
from ringtune.errors import ConfigError
from ringtune.run_function import RankFailedError
from ringtune.run_function.call_folder import PREFIX
from tests.integration.jobs import Finished, program, started, wait_for_line
from tests.integration.programs import functions
from tests.integration.remote_shells import needs_ssh, ssh_server

LIMIT_S = 60.0
QUIET = {"RINGTUNE_ALGORITHM_TABLE": "default"}


def test_results_come_back_by_rank() -> None:
    """Arguments and results are arrays and plain data; variables reach the ranks; a thread may call it as well."""
    results: list[dict[str, Any]] = []

    def call() -> None:
        row, env = np.arange(3.0), {**QUIET, "AUTOTUNE_SEED": "5"}
        results.extend(ringtune.run(functions.sums, (row,), {"factor": 2.0}, np=2, env=env, timeout_s=LIMIT_S))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

    assert [(0, 2), (1, 2)] == [result["place"] for result in results]
    assert ["5", "5"] == [result["seed"] for result in results]
    np.testing.assert_array_equal([0.0, 6.0, 12.0], results[1]["total"])


@needs_ssh
def test_hosts_from_a_function_run_the_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks of other hosts are reached by ssh; function and results lie in the shared working directory."""
    monkeypatch.chdir(tmp_path)
    ssh = tmp_path / "ssh"
    ssh.mkdir()
    with ssh_server(ssh) as server:
        results = ringtune.run(
            functions.sums,
            (np.arange(3.0),),
            np=2,
            hosts=lambda: [f"{server.login}@127.0.0.1", f"{server.login}@127.0.0.2"],
            ssh_port=server.port,
            ssh_identity_file=server.identity,
            env={**QUIET, **server.environ(), "AUTOTUNE_SEED": "5"},
            timeout_s=LIMIT_S,
        )

    assert [(0, 2), (1, 2)] == [result["place"] for result in results]
    assert ["5", "5"] == [result["seed"] for result in results]
    assert [] == list(tmp_path.glob(f"{PREFIX}*"))


def test_a_call_that_was_written_for_horovod_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Horovod's names are taken, for one rank too; infinity is no limit, and Python's path may hold a Path."""
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere")])

    (result,) = ringtune.run(
        func=functions.sums,
        args=(np.ones(1),),
        num_proc=1,
        hosts="localhost:1",
        use_gloo=True,
        use_mpi=False,
        disable_cache=True,
        executable=sys.executable,
        env=QUIET,
        timeout_s=math.inf,
    )

    assert (0, 1) == result["place"]


def test_what_a_rank_raises_is_raised_here() -> None:
    """The exception of the rank that failed first is raised with its traceback, not those of ranks that missed it."""
    with pytest.raises(RankFailedError, match="rank 1 of 2 raised ValueError: no luck") as failed:
        ringtune.run(functions.fails_on_rank_1, np=2, env=QUIET, timeout_s=LIMIT_S)

    assert 1 == failed.value.rank
    assert 'raise ValueError("no luck")' in failed.value.traceback_text
    assert "rank_program" not in failed.value.traceback_text


def test_a_rank_that_is_killed_is_an_error_that_names_it() -> None:
    """The other rank says whom it lost."""
    with pytest.raises(RankFailedError, match="rank 0 of 2 raised PeerLostError: rank 1"):
        ringtune.run(functions.is_killed_on_rank_1, np=2, env=QUIET, timeout_s=LIMIT_S)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (functions.returns_what_cannot_be_sent, "ConfigError: a builtins.object cannot be sent"),
        (functions.leaves, "raised SystemExit"),
    ],
)
def test_a_function_without_a_result_is_an_error(function: Callable[[], object], words: str) -> None:
    """A rank that returned an unsendable value, or did not return, is an error."""
    with pytest.raises(RankFailedError, match=words):
        ringtune.run(function, np=1, env=QUIET, timeout_s=LIMIT_S)


def test_the_ranks_are_ended_at_the_limit(tmp_path: Path) -> None:
    """The error says after which time, and no process of the job is left."""
    note = tmp_path / functions.TOLD
    with pytest.raises(RankFailedError, match="had not returned after 5 s"):
        ringtune.run(functions.sleeps, (str(note),), np=2, env=QUIET, timeout_s=5)

    for pid in [int(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("ranks", "env", "timeout_s", "words"),
    [
        (0, {}, None, "-np 0 is not possible"),
        (2, {"RINGTUNE_CYCLE_MS": "never"}, None, "RINGTUNE_CYCLE_MS='never' is not allowed"),
        (2, {}, 0.0, "timeout_s=0.0"),
    ],
)
def test_what_is_not_possible_is_an_error_before_anything_starts(
    ranks: int, env: dict[str, str], timeout_s: float | None, words: str
) -> None:
    """Raised here, not by a job."""
    with pytest.raises(ConfigError, match=words):
        ringtune.run(functions.leaves, np=ranks, env=env, timeout_s=timeout_s)


def test_a_programs_own_function_runs(tmp_path: Path) -> None:
    """A function's source is sent; the program is not run again on the ranks."""
    with started(program("functions", str(tmp_path))) as job:
        finished = job.wait()

    assert 0 == finished.code, finished.text
    assert "[[0.0, 6.0, 12.0], [0.0, 6.0, 12.0]]" == (tmp_path / "result").read_text(encoding="utf-8")


def end_a_call(number: int, tmp_path: Path) -> tuple[Finished, list[Path]]:
    """End a program in the middle of its call by a signal; returns how it ended, and folders that it left behind."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    with started(program("functions", str(tmp_path), "forever"), {"TMPDIR": str(temporary)}) as job:
        for rank in range(2):
            wait_for_line(tmp_path / f"{functions.TOLD}.{rank}")
        assert 1 == len(list(temporary.glob(f"{PREFIX}*")))
        os.kill(job.process.pid, number)
        finished = job.wait()
    return finished, list(temporary.glob(f"{PREFIX}*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_however_the_caller_is_ended_nothing_is_left(number: int, tmp_path: Path) -> None:
    """Once the ranks have ended Ctrl-C is a KeyboardInterrupt, and SIGTERM ends the program; its folder is gone."""
    finished, left = end_a_call(number, tmp_path)

    assert -number == finished.code, finished.text
    assert (number == signal.SIGINT) == ("KeyboardInterrupt" in finished.stderr)
    assert [] == left


def test_a_killed_callers_folder_is_removed_by_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The killed caller takes its ranks along, and can do no more."""
    finished, left = end_a_call(signal.SIGKILL, tmp_path)
    assert (-signal.SIGKILL, 1) == (finished.code, len(left)), finished.text

    monkeypatch.setattr(tempfile, "tempdir", str(left[0].parent))
    ringtune.run(functions.sums, (np.ones(1),), np=1, env=QUIET, timeout_s=LIMIT_S)

    assert [] == list(left[0].parent.iterdir())


def test_a_program_s_own_handler_of_sigterm_stays() -> None:
    """During the call and after it; one that has none gets the default back."""
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    try:
        ringtune.run(functions.ends_its_caller, (os.getpid(),), np=1, env=QUIET, timeout_s=LIMIT_S)

        assert [signal.SIGTERM] == signals
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ringtune.run(functions.sums, (np.ones(1),), np=1, env=QUIET, timeout_s=LIMIT_S)
    assert signal.SIG_DFL == signal.signal(signal.SIGTERM, before)


def test_an_elastic_call_returns_the_results_of_the_ranks_that_are_left() -> None:
    """A killed worker costs its result alone; the pause of its host is longer than the call."""
    results = ringtune.run(
        functions.survives_a_loss, np=3, min_np=2, cooldown_range=(300, 300), env=QUIET, timeout_s=LIMIT_S
    )

    assert [{"place": (rank, 2), "total": 2.0} for rank in range(2)] == results


def test_an_elastic_call_that_fails_everywhere_raises_what_a_rank_has_raised() -> None:
    """The traceback comes along, as in a fixed job."""
    with pytest.raises(RankFailedError, match="raised ValueError: no luck") as error:
        ringtune.run(functions.fails_on_rank_1, np=2, min_np=2, reset_limit=0, env=QUIET, timeout_s=LIMIT_S)

    assert 1 == error.value.rank
