# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C before a job runs: no traceback, and the code of SIGINT."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomllib

from ringtune.launch.processes import RankCommand, start_rank
from tests.integration.jobs import REPOSITORY, run_job, started, wait_for_line

SLOW_TYPER = """
import pathlib, time
pathlib.Path({announced!r}).write_text("importing\\n")
time.sleep(600)
"""


def test_ctrl_c_while_the_command_imports_is_quiet(tmp_path: Path) -> None:
    """The command's own imports take a while; no job was begun, and there is no message."""
    announced = tmp_path / "announced"
    (tmp_path / "typer.py").write_text(SLOW_TYPER.format(announced=str(announced)), encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    with started([sys.executable, "-m", "ringtune", "run", "-np", "2", "true"], {"PYTHONPATH": path}) as job:
        wait_for_line(announced)
        os.kill(job.process.pid, signal.SIGINT)
        finished = job.wait()

    assert (130, "", "") == (finished.code, finished.stdout, finished.stderr)


def test_the_installed_command_is_entered_there() -> None:
    """The script that people call is the way in that Ctrl-C may interrupt."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert {"ringtune": "ringtune.__main__:main"} == project["scripts"]


def test_ctrl_c_while_a_rank_is_started_is_quiet(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is born with the signal blocked, and ends by it before it becomes the user's program."""
    real, born_with = subprocess.Popen, []

    def interrupted(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        born_with.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        process = real(*arguments, **options)
        process.send_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    command = RankCommand((sys.executable, "-c", "import time; time.sleep(600)"), "ab" * 32)

    rank = start_rank(command, 0, {**os.environ})
    assert rank.child.ends_within(300)
    code = rank.child.end(0)

    assert (-signal.SIGINT, "") == (code, capfd.readouterr().err)
    assert [True] == [signal.SIGINT in mask for mask in born_with]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_rank_heeds_ctrl_c_as_usual() -> None:
    """The signal is blocked no longer once it is the user's program."""
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); os._exit(0)"
    finished = run_job([sys.executable, "-m", "ringtune", "run", "-np", "1", sys.executable, "-c", program])

    assert "KeyboardInterrupt" in finished.stderr
    assert finished.code in {1, 128 + signal.SIGINT}


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    """A command under nohup or in the background of a script does not heed Ctrl-C, and neither do its ranks."""
    program = "import signal; raise SystemExit(0 if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else 1)"
    command = [sys.executable, "-m", "ringtune", "run", "-np", "1", sys.executable, "-c", program]

    finished = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command], capture_output=True, text=True, check=False
    )

    assert (0, "") == (finished.returncode, finished.stderr)
