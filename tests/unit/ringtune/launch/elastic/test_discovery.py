# SPDX-License-Identifier: Apache-2.0
"""Discovery by real scripts and functions: good answers, failures, floods, hangs, deaths. Waits for answers only."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.elastic import discovery, finder
from ringtune.launch.elastic.answers import Answer, failed
from ringtune.launch.elastic.discovery import (
    REPEAT_S,
    DiscoverySource,
    Faults,
    FindingProcess,
    FixedDiscovery,
    check_function,
)
from ringtune.system.event_loop import EventLoop

DEADLINE_S = 120.0


class Looking:
    """A discovery with its answers."""

    def __init__(self, kind: str, source: str, path: str = "") -> None:
        """Begin to look."""
        self.answers: list[Answer] = []
        self.loop = EventLoop(takes_files=True)
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([path, *sys.path])}
        described = DiscoverySource(kind, source, 3, "--host-discovery-script")
        self.process = FindingProcess(self.loop, described, environ, self.answers.append)

    def next(self) -> Answer:
        """Return the next answer."""
        wanted, end_s = len(self.answers) + 1, time.monotonic() + DEADLINE_S
        while len(self.answers) < wanted:
            assert time.monotonic() < end_s, "no answer"
            self.loop.turn(min(self.process.look_if_due(), 1.0))
        return self.answers[-1]

    def problem(self) -> str:
        """Return the only problem of the next answer, in words."""
        (problem,) = self.next().problems
        return problem.text


@contextmanager
def looking(kind: str, source: str, path: str = "") -> Iterator[Looking]:
    """Look until the end of the block."""
    looks = Looking(kind, source, path)
    try:
        yield looks
    finally:
        looks.process.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(discovery, "LOOK_INTERVAL_S", 0.01)


def test_a_script_is_asked_again_and_again(tmp_path: Path) -> None:
    """Its present output is the answer; this machine is recognised; the options' slots hold where it prints none."""
    (tmp_path / "hosts").write_text("127.0.0.1:2\n", encoding="utf-8")
    with looking(finder.SCRIPT, f"cat {tmp_path}/hosts") as looks:
        first = looks.next()
        (tmp_path / "hosts").write_text("127.0.0.1:2\nada@other\n", encoding="utf-8")
        second = looks.next()

    assert [("127.0.0.1", 2, True)] == [(host.name, host.slots, host.is_here) for host in first.hosts]
    assert [("127.0.0.1", 2, True), ("ada@other", 3, False)] == [(h.name, h.slots, h.is_here) for h in second.hosts]


def test_a_function_is_imported_once_and_called_each_time(tmp_path: Path) -> None:
    """Its output is no answer; an exception is a fault."""
    (tmp_path / "cluster.py").write_text(
        "print('imported')\ncount = 0\ndef hosts():\n    global count\n    count += 1\n    print('a:9')\n"
        "    if count == 3:\n        raise OSError('no answer from the cluster')\n    return {f'host{count}': 2}\n",
        encoding="utf-8",
    )
    with looking(finder.FUNCTION, "cluster:hosts", str(tmp_path)) as looks:
        answers = [looks.next() for _ in range(4)]

    names = [[host.name for host in answer.hosts] for answer in answers]
    assert [["host1"], ["host2"], [], ["host4"]] == names
    assert "it raised OSError: no answer from the cluster" == answers[2].problems[0].text


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo a:1; echo no credentials >&2; exit 3", "it ended with exit code 3, saying: no credentials"),
        ("kill -9 $$", "it was killed by signal 9, saying: nothing"),
        ("./not_there.sh", "it ended with exit code 127, saying: "),
        ("yes", f"it printed more than {finder.MAX_OUTPUT_BYTES} bytes"),
        ("true", "it named no host; the hosts stay as they were"),
        (r"printf '\013\377\205 :9'", "line 1, "),
    ],
)
def test_a_script_that_fails_is_a_fault_each_time(script: str, text: str) -> None:
    """The next look comes all the same, in a new process where the old one is of no use."""
    with looking(finder.SCRIPT, script) as looks:
        assert looks.problem().startswith(text)
        assert looks.problem().startswith(text)


def test_a_script_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds, and the next look is a new one."""
    monkeypatch.setattr(discovery, "LOOK_LIMIT_S", 2.0)
    script = f"sleep 600 & echo $! > {tmp_path}/pid; [ -e {tmp_path}/again ] && echo a; touch {tmp_path}/again; wait"
    with looking(finder.SCRIPT, script) as looks:
        assert "it took longer than 2 s and was ended" == looks.problem()
        sleeper = int((tmp_path / "pid").read_text(encoding="utf-8"))

    end_s = time.monotonic() + DEADLINE_S
    while Path(f"/proc/{sleeper}").exists() and "Z" not in Path(f"/proc/{sleeper}/stat").read_text(encoding="utf-8"):
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_the_death_of_the_finder_is_a_fault_and_no_end() -> None:
    """Another one answers the next look."""
    with looking(finder.SCRIPT, "[ -e /proc/$PPID ] && kill -9 $PPID; echo a") as looks:
        assert "the process that runs it was killed" == looks.problem()
        assert "the process that runs it was killed" == looks.problem()


def test_a_fault_is_reported_when_it_begins_and_then_seldom() -> None:
    """A script that fails every second fills no log, and yet is not forgotten."""
    faults = Faults()

    times_s = [0.0, 1.0, REPEAT_S - 1.0, REPEAT_S, REPEAT_S + 1.0]
    reported = [len(faults.new(failed("exit", "code 1"), time_s)) for time_s in times_s]

    assert [1, 0, 0, 1, 0] == reported
    assert ["other"] == [problem.kind for problem in faults.new(failed("other", "x"), 2.0)]


def test_fixed_hosts_are_one_answer() -> None:
    """The second look gives no further answer."""
    answers: list[Answer] = []
    fixed = FixedDiscovery((), answers.append)

    assert [float("inf"), float("inf")] == [fixed.look_if_due(), fixed.look_if_due()]
    assert [Answer()] == answers


@pytest.mark.parametrize("name", ["", "cluster", ":hosts", "cluster:", "a b:hosts", "os:system('x')", "x:1y"])
def test_a_text_that_names_no_function_is_refused(name: str) -> None:
    """The form is named."""
    with pytest.raises(ConfigError, match="write --hosts-from MODULE:FUNCTION"):
        check_function(name)


def test_signals_of_the_terminal_do_not_reach_the_finder() -> None:
    """The finder is in a session of its own: Ctrl-C ends the launcher, which ends it."""
    with looking(finder.SCRIPT, "echo $PPID > /dev/null; echo a") as looks:
        looks.next()
        process = looks.process._process

        assert process is not None
        assert os.getsid(process.pid) != os.getsid(0)
