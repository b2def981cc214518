# SPDX-License-Identifier: Apache-2.0
"""Forked ranks are processes as the launcher would start them: places, environment, output, ends, and leftovers.

A script of an interpreter that has imported torch already is such a process, too.
"""

import json
import signal
from pathlib import Path

import pytest

from tests.integration import jobs
from tests.integration.forked_ranks import Forked
from tests.integration.jobs import Ranks, preloaded_python, run_job, started, wait_for_line

KNOWN = """
import json, os, sys, threading
facts = {name: os.environ.get(name) for name in ("RINGTUNE_RANK", "RINGTUNE_WORLD_SIZE", "GIVEN", "RINGTUNE_LOG_LEVEL")}
facts |= {"arguments": sys.argv[1:], "name": __name__, "threads": threading.active_count(), "path": sys.path[0]}
facts |= {"folder": os.getcwd(), "open": len(os.listdir("/proc/self/fd")), "torch": "torch" in sys.modules}
os.write(1, f"{json.dumps(facts)}\\n".encode())
"""
MEETING = """
import os
from tests.integration.plain_rank import allreduce, join, say
say(f"sum {allreduce(join(), 'sum', [1.0 + int(os.environ['RINGTUNE_RANK'])])}")
"""
FAILING = """
import os, signal, time
if os.environ["RINGTUNE_RANK"] == "1":
    print("last words", flush=True)
    {end}
time.sleep(600)
"""
LEAVING = """
import os, pathlib, time
child = os.fork()
if child == 0:
    os.setsid()
    time.sleep(600)
pathlib.Path("child").write_text(str(child))
"""


def written(folder: Path, text: str) -> Forked:
    """Return a program with this text."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return Forked(path, ("one", "two words"))


def is_alive(pid: int) -> bool:
    """Return whether there is such a process that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_each_rank_finds_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank has its place, arguments, working directory and environment; of this process's, only standard streams."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RINGTUNE_LOG_LEVEL", "debug")  # of the launcher's kind: no test's business

    finished = run_job(Ranks(2, written(tmp_path, KNOWN)), {"GIVEN": "by the test"})

    assert 0 == finished.code, finished.text
    facts = sorted(map(json.loads, finished.stdout.splitlines()), key=lambda rank: rank["RINGTUNE_RANK"])
    assert ["0", "1"] == [rank["RINGTUNE_RANK"] for rank in facts]
    expected = {
        "RINGTUNE_WORLD_SIZE": "2",
        "GIVEN": "by the test",
        "RINGTUNE_LOG_LEVEL": None,
        "arguments": ["one", "two words"],
        "name": "__main__",
        "threads": 1,
        "path": str(tmp_path),
        "folder": str(tmp_path),
        "open": 4,  # the standard streams, and the folder that was listed
        "torch": True,
    }
    for rank in facts:
        assert expected == {name: rank[name] for name in expected}


def test_ranks_meet(tmp_path: Path) -> None:
    """Forked ranks get one meeting place and one key."""
    finished = run_job(Ranks(3, written(tmp_path, MEETING)))

    assert 0 == finished.code, finished.text
    assert 3 * ["sum [6.0]"] == finished.stdout.splitlines()


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise ValueError('an error')", 1, "ValueError: an error"),
        ("raise SystemExit('a message')", 1, "a message"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL, ""),
    ],
)
def test_the_first_rank_that_fails_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, code: int, words: str
) -> None:
    """The job's exit code is that rank's, or 128 and the signal; the others are ended."""
    monkeypatch.setattr("tests.integration.forked_ranks.SELF_END_S", 0.2)

    finished = run_job(Ranks(2, written(tmp_path, FAILING.format(end=end))))

    assert code == finished.code, finished.text
    assert words in finished.stderr
    assert "last words\n" == finished.stdout


def test_a_job_past_its_deadline_is_killed(tmp_path: Path) -> None:
    """The test fails with the ranks' output."""
    program = written(tmp_path, "import time; print('waiting', flush=True); time.sleep(600)")

    with pytest.raises(AssertionError, match=r"past its deadline of 1 s\nwaiting\nwaiting"):
        run_job(Ranks(2, program), deadline_s=1.0)


def test_what_a_forked_rank_leaves_behind_is_found_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of a rank carries the job's marker, although no program was executed since the server started."""
    monkeypatch.setattr(jobs, "SETTLE_S", 0.2)

    monkeypatch.chdir(tmp_path)

    with pytest.raises(AssertionError):
        run_job(Ranks(1, written(tmp_path, LEAVING)))

    left = int((tmp_path / "child").read_text(encoding="utf-8"))
    assert [] == jobs.settled(lambda: list(filter(is_alive, [left])))


def interpreter(folder: Path, text: str) -> list[str]:
    """Return the command that runs a script with this text by a preloaded interpreter."""
    preloaded_python(folder / "python")
    return [str(folder / "python"), "-u", str(written(folder, text).program), "one", "two words"]


def test_a_preloaded_interpreter_runs_a_script(tmp_path: Path) -> None:
    """Arguments, variables and output are the script's; torch is there already."""
    finished = run_job(interpreter(tmp_path, KNOWN), {"GIVEN": "by the test"})

    facts = json.loads(finished.stdout)
    assert (0, ["one", "two words"], "by the test", True) == (
        finished.code,
        facts["arguments"],
        facts["GIVEN"],
        facts["torch"],
    )


def test_a_preloaded_interpreter_leaves_all_but_scripts_to_the_real_one(tmp_path: Path) -> None:
    """A command of one line is such a thing."""
    command, *_ = interpreter(tmp_path, "")

    finished = run_job([command, "-c", "import sys; print('torch' in sys.modules)"])

    assert (0, "False\n") == (finished.code, finished.stdout)


@pytest.mark.parametrize(
    ("end", "code"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)]
)
def test_a_preloaded_interpreter_ends_as_its_script(tmp_path: Path, end: str, code: int) -> None:
    """The exit code is the script's, or the same signal ends both."""
    assert code == run_job(interpreter(tmp_path, end)).code


def test_a_preloaded_interpreter_hands_signals_on(tmp_path: Path) -> None:
    """The script decides on a signal's effect."""
    ready = tmp_path / "ready"
    script = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        f"pathlib.Path({str(ready)!r}).write_text('ready\\n')\n"
        "time.sleep(600)\n"
    )

    with started(interpreter(tmp_path, script)) as job:
        wait_for_line(ready)
        job.process.send_signal(signal.SIGTERM)
        finished = job.wait()

    assert 5 == finished.code, finished.text
