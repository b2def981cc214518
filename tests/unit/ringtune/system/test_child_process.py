# SPDX-License-Identifier: Apache-2.0
"""Child processes: their lines, their end, and their tie to this process."""

import os
import select
import signal
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

import pytest

from ringtune.system.child_process import MAX_LINE_BYTES, NULL, PIPE, WITH_STDOUT, Child, StopRequested, Tie
from ringtune.system.event_loop import is_readable

LIMIT_S = 60.0
ANSWER = "import sys\nfor line in sys.stdin:\n    print(line.upper(), end='', flush=True)\n"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
POLITE = DEAF.replace("signal.SIG_IGN", "lambda *_: exit(3)")
ORPHAN = """
import subprocess, time
subprocess.run(["sh", "-c", "setsid sleep 600 > /dev/null & echo $!"])
time.sleep(600)
"""
GRANDPARENT = f"""
import sys, time
from ringtune.system.child_process import Child, Tie
child = Child([sys.executable, "-c", {ORPHAN!r}], tie=Tie(sys.argv[1]))
print(child.pid, child.next_line().decode(), flush=True)
time.sleep(600)
"""


def python(program: str, *arguments: str) -> list[str]:
    """Return the command line of a program in Python."""
    return [sys.executable, "-c", program, *arguments]


def has_ended(pid: int) -> bool:
    """Wait until a process that may be another's child has ended; return whether it did."""
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            return bool(select.select([pidfd], [], [], LIMIT_S)[0])
        finally:
            os.close(pidfd)
    return True


def descriptors() -> list[str]:
    """Return the numbers of this process's open descriptors, and of the one that looks."""
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def test_lines_come_one_by_one_without_their_ends() -> None:
    """The last one needs no end, and there is none after it."""
    with Child(["printf", r"a\n\nb"]) as child:
        assert [b"a", b"", b"b", None] == [child.next_line(LIMIT_S) for _ in range(4)]


def test_a_line_without_end_comes_in_pieces() -> None:
    """Memory is bounded."""
    with Child(["head", "-c", str(3 * MAX_LINE_BYTES), "/dev/zero"]) as child:
        pieces = []
        while (piece := child.next_line(LIMIT_S)) is not None:
            pieces.append(len(piece))

    assert 3 * MAX_LINE_BYTES == sum(pieces)
    assert max(pieces) < 2 * MAX_LINE_BYTES


def test_a_child_answers_and_ends_with_its_input() -> None:
    """Questions go by standard input."""
    with Child(python(ANSWER), stdin=PIPE) as child:
        child.write(b"one\n")
        assert b"ONE" == child.next_line(LIMIT_S)
        child.write(b"two\n")
        assert b"TWO" == child.next_line(LIMIT_S)
        child.close_stdin()

        assert child.ends_within(LIMIT_S)
        assert 0 == child.exit_code


def test_a_silent_child_is_not_waited_for_beyond_the_limit() -> None:
    """The child goes on, and may be asked again; a limit that has passed is one, too."""
    with Child(python(DEAF)) as child:
        assert b"deaf" == child.next_line(LIMIT_S)
        for limit_s in (0.05, 0.0, -1.0):
            with pytest.raises(TimeoutError):
                child.next_line(limit_s)
        assert not child.ends_within(0.05)
        assert child.exit_code is None
        child.end(0)


def test_a_look_for_the_end_drops_nothing() -> None:
    """A wait would."""
    with Child(["sh", "-c", "echo here; exec sleep 600"]) as child:
        assert is_readable(child.stdout, LIMIT_S)

        assert not child.ends_within(0.0)
        assert b"here" == child.next_line(LIMIT_S)


def test_a_flood_does_not_outlast_the_limits() -> None:
    """Neither a wait for the end nor one for a line goes on for as long as something comes."""
    with Child(["yes"]) as child:
        assert not child.ends_within(0.1)
        end_s = time.monotonic() + 0.1
        with pytest.raises(TimeoutError):
            deque(iter(lambda: child.next_line(end_s - time.monotonic()), None))


def test_a_descriptor_ends_the_wait_for_a_line() -> None:
    """Lines that were taken already come first."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"!")
    with Child(["sleep", "600"]) as child, pytest.raises(StopRequested):
        child.next_line(LIMIT_S, read_end)
    os.close(read_end)
    os.close(write_end)


def test_a_full_standard_error_stops_nothing() -> None:
    """The stream is read while a line, or the end, is waited for; its end is kept."""
    program = "import sys; say = sys.stderr.write; say('x' * 1000000); print('a', flush=True); say('y' * 1000000 + '!')"
    with Child(python(program)) as child:
        assert b"a" == child.next_line(LIMIT_S)
        assert child.ends_within(LIMIT_S)
        child.end()

        assert child.said.endswith("y!")
        assert len(child.said) < 100_000


@pytest.mark.parametrize(("program", "code"), [(POLITE, 3), (DEAF, -signal.SIGKILL)])
def test_the_end_is_requested_before_it_is_forced(program: str, code: int) -> None:
    """A program that clears up is let; one that does not follow is killed. Its code stays known."""
    with Child(python(program)) as child:
        child.next_line(LIMIT_S)
        grace_s = 0.2 if code < 0 else LIMIT_S

        assert [code] * 3 == [child.end(grace_s), child.end(grace_s), child.exit_code]


def test_an_end_without_grace_requests_nothing() -> None:
    """A program that would clear up is killed."""
    with Child(python(POLITE)) as child:
        child.next_line(LIMIT_S)

        assert -signal.SIGKILL == child.end(0)


def test_nothing_of_a_session_is_left() -> None:
    """Processes that the child has started end with it, also where it has ended by itself before."""
    with Child(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"]) as child:
        grandchild = int(child.next_line(LIMIT_S) or b"")
        assert child.ends_within(LIMIT_S)

    assert has_ended(grandchild)


def test_a_child_without_a_session_gets_signals_alone() -> None:
    """Its group is this process's own."""
    with Child(["sleep", "600"], has_session=False) as child:
        assert os.getpgid(child.pid) == os.getpgid(0)

        assert -signal.SIGTERM == child.end(LIMIT_S)


def test_an_interrupt_during_the_grace_ends_the_child_at_once() -> None:
    """No process is left running, and the interrupt goes on."""
    child = Child(python(DEAF))
    child.next_line(LIMIT_S)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()

    with pytest.raises(KeyboardInterrupt):
        child.end(LIMIT_S)

    assert -signal.SIGKILL == child.exit_code


@pytest.mark.parametrize("tie", [Tie.CHILD, Tie.DESCENDANTS])
def test_a_tied_child_ends_with_its_parent(tie: Tie) -> None:
    """The kernel ends it, for a killed parent cannot; descendants end if they are tied, orphans too."""
    with Child(python(GRANDPARENT, tie.value), stderr=None) as parent:
        child, orphan = map(int, (parent.next_line(LIMIT_S) or b"").split())
        os.kill(parent.pid, signal.SIGKILL)

        assert has_ended(child)
        if tie is Tie.DESCENDANTS:
            assert has_ended(orphan)
        else:
            os.kill(orphan, signal.SIGKILL)


def test_a_tied_command_that_is_not_there_is_named() -> None:
    """The exit code is a shell's."""
    for tie in (Tie.CHILD, Tie.DESCENDANTS):
        with Child(["/nowhere/at-all"], stderr=WITH_STDOUT, tie=tie) as child:
            assert b"cannot start '/nowhere/at-all': No such file" in (child.next_line(LIMIT_S) or b"")
            assert child.ends_within(LIMIT_S)
            assert 127 == child.exit_code


def test_an_untied_command_that_is_not_there_is_an_error() -> None:
    """No process was started."""
    with pytest.raises(FileNotFoundError):
        Child(["/nowhere/at-all"])


def test_no_descriptor_is_left_open() -> None:
    """Pipes and the descriptor of the process are closed at the end."""
    before = descriptors()
    with Child(["true"], stdin=PIPE):
        assert len(descriptors()) > len(before)
    with Child(["true"], stdout=NULL, stderr=NULL):
        pass

    assert before == descriptors()
