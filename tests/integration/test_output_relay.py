# SPDX-License-Identifier: Apache-2.0
"""Output of ranks through `ringtune run`: whole lines, every byte, terminals where there is one."""

import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from ringtune.launch.rank_output import BACKLOG_BYTES
from tests.integration.jobs import launched_by, program, ringtune, run_job, started
from tests.integration.printed_lines import ALL, COUNT, LONGEST, RANKS, numbers, torn_lines
from tests.integration.remote_shells import ONE, write_rsh
from tests.integration.terminals import COLUMNS, LINES, bytes_on_terminal, on_terminal, run_on_terminal

SIDES = ("", ONE)
ERASED = re.compile(rb"[^\n]*\r\x1b\[K")
"""Part of a line that is no longer on the screen: the launcher's line while a slow host starts."""
WITH, WITHOUT = ("--prefix-output", "[N] "), ("--no-prefix-output", "")


def printing(folder: Path, host: str, *options: str) -> list[str]:
    """Return the command of 8 ranks that print 10,000 lines on each stream; on a host, or on this machine."""
    hosts = ["-H", f"localhost:4,{host}:4", "--rsh", write_rsh(folder)] if host else []
    return ringtune("run", "-np", str(RANKS), *hosts, *options, *program("prints_lines", str(COUNT), str(LONGEST)))


@pytest.mark.parametrize(("host", "option", "prefix"), [("", *WITHOUT), (ONE, *WITH)])
def test_ten_thousand_lines_arrive_whole_on_pipes(tmp_path: Path, host: str, option: str, prefix: str) -> None:
    """None is torn, lost or out of its rank's order, up to 64 KiB long, and each stays on its stream."""
    finished = run_job(printing(tmp_path, host, option))

    assert 0 == finished.code, finished.text[-2000:]
    for stream, text in (("out", finished.stdout), ("err", finished.stderr)):
        assert [] == torn_lines(text.encode(), prefix)
        assert ALL == numbers(text.encode(), stream)


@pytest.mark.parametrize(("host", "option", "prefix"), [("", *WITH), (ONE, *WITHOUT)])
def test_ten_thousand_lines_arrive_whole_on_a_terminal(tmp_path: Path, host: str, option: str, prefix: str) -> None:
    """Both streams of all ranks end on one screen, where lines end as lines on terminals do."""
    code, data = bytes_on_terminal(printing(tmp_path, host, option))

    assert 0 == code, data[-2000:]
    lines = ERASED.sub(b"", data.replace(b"\r\n", b"\n"))
    assert [] == torn_lines(lines, prefix)
    assert [ALL, ALL] == [numbers(lines, stream) for stream in ("out", "err")]


def test_torn_lines_would_be_seen(tmp_path: Path) -> None:
    """A launcher that does not wait for the end of lines fails the check of the tests above."""
    finished = run_job(launched_by("tearing_launcher", printing(tmp_path, "")))

    assert torn_lines(finished.stdout.encode(), "")


def into_files(folder: Path, command: list[str]) -> list[str]:
    """Return the command with its streams in the files `out` and `err` of a folder, for output that is no text."""
    return ["sh", "-c", 'cd "$0"; exec "$@" >out 2>err', str(folder), *command]


def buffering(command: list[str]) -> list[str]:
    """Return the command without the variable that makes Python write every byte at once."""
    return ["env", "-u", "PYTHONUNBUFFERED", *command]


def on_host(folder: Path, host: str, ranks: int) -> list[str]:
    """Return the options for ranks on a host, or on this machine."""
    where = ["-H", f"{host}:{ranks}", "--rsh", write_rsh(folder)] if host else []
    return ["-np", str(ranks), *where, "--no-prefix-output"]


@pytest.mark.parametrize("host", SIDES)
def test_binary_output_arrives_as_it_was_written(tmp_path: Path, host: str) -> None:
    """Bytes that are no text, the last of them a return, come on the stream they were written to; none is added."""
    script = (
        "import os, random\n"
        "data = random.Random(7).randbytes(3 << 20) + b'\\r'\n"
        "for stream in (1, 2):\n"
        "    rest = data if os.environ['RINGTUNE_RANK'] == '0' else b''\n"
        "    while rest:\n"
        "        rest = rest[os.write(stream, rest[:50000]):]\n"
    )
    command = ringtune("run", *on_host(tmp_path, host, 2), sys.executable, "-c", script)

    finished = run_job(into_files(tmp_path, command))

    data = random.Random(7).randbytes(3 << 20) + b"\r"
    assert 0 == finished.code
    assert [True, True] == [data == (tmp_path / name).read_bytes() for name in ("out", "err")]


@pytest.mark.parametrize("host", SIDES)
def test_ranks_see_the_launchers_terminal(tmp_path: Path, host: str) -> None:
    """Both streams are terminals of its size and kind; a change of the size reaches every rank."""
    command = buffering(ringtune("run", *on_host(tmp_path, host, 2), *program("shows_streams", "1")))

    with on_terminal(command) as job:
        job.read_until(rb"(?s)size.*size.*\n")
        job.resize(77, 33)
        code = job.wait()

    assert 0 == code, job.data
    shown = [f"terminals out+err, size {COLUMNS}x{LINES}, TERM xterm, unbuffered None"] * 2
    assert [*shown, *["now terminals out+err, size 77x33"] * 2] == job.data.decode().split("\r\n")[:-1]


@pytest.mark.parametrize("host", SIDES)
@pytest.mark.parametrize(("redirection", "kinds"), [("2>err", "out"), (">out", "err"), (">out 2>&1", "none")])
def test_a_stream_is_a_terminal_where_the_launchers_is(tmp_path: Path, host: str, redirection: str, kinds: str) -> None:
    """A stream that the user sends elsewhere is a pipe, the other stays a terminal."""
    command = buffering(ringtune("run", *on_host(tmp_path, host, 1), *program("shows_streams", "0")))

    code, data = bytes_on_terminal(["sh", "-c", f'cd "$0"; exec "$@" {redirection}', str(tmp_path), *command])

    text = data + b"".join(path.read_bytes() for path in (tmp_path / "out", tmp_path / "err") if path.exists())
    assert (0, True) == (code, f"terminals {kinds}, size".encode() in text), text
    assert (b"unbuffered 1" in text) == (kinds != "out")


def test_a_progress_bar_is_drawn_in_place() -> None:
    """A bar that returns to the start of its line stays on one line, in colour, between lines that end."""
    script = (
        "import os, sys, time\n"
        "if os.environ['RINGTUNE_RANK'] == '0':\n"
        "    for percent in range(0, 101, 10):\n"
        "        sys.stderr.write(f'\\r\\x1b[32m{percent:3d}%\\x1b[0m')\n"
        "        sys.stderr.flush()\n"
        "        time.sleep(0.01)\n"
        "    sys.stderr.write('\\n')\n"
        "    print('trained')\n"
    )

    seen = run_on_terminal(ringtune("run", "-np", "2", sys.executable, "-c", script))

    assert (0, ["100%", "trained"]) == (seen.code, [line.strip() for line in seen.last]), seen.text
    assert b"\x1b[32m 50%" in seen.raw


@pytest.mark.parametrize("host", SIDES)
def test_a_reader_that_stops_loses_nothing(tmp_path: Path, host: str) -> None:
    """The launcher keeps a bounded part and holds the ranks back; the rest comes when the reader does."""
    size = 24 << 20
    script = f"head -c {size} /dev/zero | tr '\\0' x; touch $0/through"
    command = ringtune("run", *on_host(tmp_path, host, 1), "sh", "-c", script, str(tmp_path))

    with started(command) as job:
        wait_until_it_rests(job.process.pid)
        was_through = (tmp_path / "through").exists()
        finished = job.wait()

    assert not was_through
    assert (0, size, True) == (finished.code, len(finished.stdout), (tmp_path / "through").exists())


def wait_until_it_rests(pid: int) -> None:
    """Wait until a process that has read some megabytes reads no more, whatever it is offered."""
    seen = -1
    while (now := _read_bytes(pid)) != seen or now < BACKLOG_BYTES:
        seen = now
        time.sleep(1.0)


def _read_bytes(pid: int) -> int:
    (count,) = re.findall(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text(encoding="utf-8"))
    return int(count)


@pytest.mark.parametrize("host", SIDES)
def test_a_reader_that_goes_away_ends_the_job(tmp_path: Path, host: str) -> None:
    """`| head` gets its lines, the ranks are asked to end, and the code is that of a broken pipe."""
    both_ready = "touch $0/ready.$RINGTUNE_RANK; until test -e $0/ready.0 -a -e $0/ready.1; do sleep 0.05; done"
    endless = "while true; do echo $RINGTUNE_RANK; done"
    script = f"trap 'touch $0/asked.$RINGTUNE_RANK; exit 0' TERM; {both_ready}; {endless}"
    command = ringtune("run", *on_host(tmp_path, host, 2), "sh", "-c", script, str(tmp_path))

    finished = run_job(["bash", "-c", '"$@" | head -n 3; exit ${PIPESTATUS[0]}', "bash", *command])

    assert (128 + signal.SIGPIPE, 3) == (finished.code, len(finished.stdout.splitlines())), finished.text
    assert "nobody reads its standard output any more" in finished.stderr
    assert 2 == len(list(tmp_path.glob("asked.*")))


def test_a_full_disk_is_told_and_does_not_end_training(tmp_path: Path) -> None:
    """One line reports the full disk, the ranks go on, and the exit code is 1."""
    script = "seq 100000; touch $0/through"
    command = ringtune("run", "-np", "1", "sh", "-c", script, str(tmp_path))

    finished = run_job(["sh", "-c", 'exec "$@" >/dev/full', "sh", *command])

    assert (1, True) == (finished.code, (tmp_path / "through").exists()), finished.text
    assert 1 == finished.stderr.count("standard output cannot be written (No space left on device)")
