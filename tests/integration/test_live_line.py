# SPDX-License-Identifier: Apache-2.0
"""The tuner's output: a live line on a terminal, whoever started the job, and plain lines elsewhere."""

import re
import sys
from pathlib import Path

import pytest

from tests.integration.jobs import launched, program, ringtune, run_job, torchrun
from tests.integration.quick_tuning import QUICK, UNTIL_DECIDED
from tests.integration.terminals import COLUMNS, LINES, run_on_terminal

LIVE = "ringtune autotune: "
TUNED = program("tuned", "6", UNTIL_DECIDED, "marked")
ESCAPE = "\x1b"
STARTED_BY = {
    "ringtune run": ringtune("run", "-np", "2", *TUNED),
    "ringtune run --prefix-output": ringtune("run", "-np", "2", "--prefix-output", *TUNED),
    "nobody": TUNED,
}


@pytest.mark.parametrize("launcher", [*STARTED_BY, pytest.param("torchrun", marks=pytest.mark.long)])
def test_a_person_sees_a_live_line(launcher: str, tmp_path: Path) -> None:
    """One line goes through the phases in its place; at the end there is the verdict, and the live line is gone."""
    command = STARTED_BY.get(launcher) or torchrun(tmp_path / "python", *(word for word in TUNED[1:] if word != "-u"))

    seen = run_on_terminal(command, QUICK)

    assert 0 == seen.code, seen.text
    phases = [line.partition(LIVE)[2].split()[0] for line in seen.lines_with(LIVE) if "|" in line]
    assert {"baseline", "search"} <= set(phases), phases
    assert all(sum(" | " in line for line in screen) <= 1 for screen in seen.screens)
    assert not any(" | " in line for line in seen.last), seen.text
    assert re.search("adopted|keeping default", "".join(seen.last)), seen.text
    assert "exact steps" in "".join(seen.last), seen.text


def test_without_a_terminal_there_are_plain_lines(tmp_path: Path) -> None:
    """A file gets lines that end, without a control character, whatever the environment says of colours and columns."""
    log = tmp_path / "stderr.txt"
    command = ["sh", "-c", 'exec "$@" 2>"$0"', str(log), *launched(2, "tuned", "6", UNTIL_DECIDED, "marked")]

    finished = run_job(command, {**QUICK, "FORCE_COLOR": "1", "RINGTUNE_TERMINAL_COLUMNS": "100"})

    text = log.read_text(encoding="utf-8")
    assert 0 == finished.code, finished.text
    assert ESCAPE not in text
    assert "\r" not in text
    assert [f"{LIVE}warmup"] == [line for line in text.splitlines() if line.startswith(LIVE)][:1]
    assert re.search("adopted|keeping default", text)


def test_a_dumb_terminal_gets_plain_lines() -> None:
    """A terminal that cannot move its cursor gets no attempt to."""
    seen = run_on_terminal(TUNED, {**QUICK, "TERM": "dumb"})

    assert 0 == seen.code, seen.text
    assert ESCAPE.encode() not in seen.raw
    assert seen.lines_with(f"{LIVE}warmup"), seen.text


def test_what_the_training_prints_stays_whole_beside_the_live_line() -> None:
    """Lines and a progress bar keep their place, below them stands the live line, cut to the terminal's width."""
    seen = run_on_terminal(program("beside_a_live_line", "3"))

    assert 0 == seen.code, seen.text
    printed = ["epoch 0", "epoch 1", "epoch 2", " 60% [######    ] done", "last line", "over"]
    assert printed == seen.last
    cut = f"live {'x' * 200}"[: COLUMNS - 2] + "…"
    assert [*printed[:3], " 50% [#####     ]", cut] in seen.screens
    assert [*printed[:4], "live again"] in seen.screens


def test_a_full_screen_scrolls_with_the_live_line_at_its_end() -> None:
    """At the bottom of the terminal the live line makes room for itself, and no line is lost or doubled."""
    count = LINES + 6

    seen = run_on_terminal(program("beside_a_live_line", str(count)))

    assert 0 == seen.code, seen.text
    assert ["last line", "over"] == seen.last[-2:]
    epochs = [line for line in seen.last if line.startswith("epoch")]
    assert [f"epoch {number}" for number in range(count - len(epochs), count)] == epochs
    assert all(any(f"epoch {number}" in screen for screen in seen.screens) for number in range(count))


def test_a_terminal_that_goes_away_disturbs_nobody() -> None:
    """The person closes the window; a job that ignores the hang-up tunes and trains to its end."""
    code = "import os, pty, sys; ours, theirs = pty.openpty(); os.dup2(theirs, 2); os.close(theirs); os.close(ours); "
    command = [sys.executable, "-c", f"{code}os.execv(sys.argv[1], sys.argv[1:])", *TUNED]

    finished = run_job(command, {**QUICK, "TERM": "xterm"})

    assert 0 == finished.code, finished.text
    assert "exact steps" in finished.stdout
