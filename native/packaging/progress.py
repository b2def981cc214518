# SPDX-License-Identifier: Apache-2.0
"""Runs one step of the set-up and shows how far it is; its whole output lies in a log, and is shown if it fails.

It knows the lines of pip and of ninja. On a terminal one line is rewritten; elsewhere a line is printed every ten
seconds. It runs before any package is installed, and so uses the standard library alone.
"""

import argparse
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO

EVERY_S = 10.0  # seconds between two lines of progress where there is no terminal
TERMINAL_EVERY_S = 0.5  # seconds between two looks of the rewritten line
SHOWN_LINES = 40  # lines of a failed step's output that are shown
COLUMNS = 100

NINJA = re.compile(r"^\s*\[(\d+)/(\d+)\]")
DOWNLOAD = re.compile(r"^\s*Downloading (?:\S*/)?([A-Za-z0-9_.]+)-\d\S* \(([^)]+)\)")
COLLECTED = re.compile(r"^\s*(?:Collecting|Processing) ")
UNPACKING = re.compile(r"^\s*Installing collected packages")
COMPILER_WARNING = re.compile(r"^\s*\S+:\d+(?::\d+)?: warning: ")


class Progress:
    """The state of one step, read from its output."""

    def __init__(self) -> None:
        self.compiler_warnings = 0
        self._packages = 0
        self._said = "begins"

    def read(self, line: str) -> None:
        """Take one line of output."""
        if built := NINJA.match(line):
            self._said = f"file {built[1]} of {built[2]}"
        elif COLLECTED.match(line):
            self._packages += 1
            self._said = f"{self._packages} packages found"
        elif got := DOWNLOAD.match(line):
            self._said = f"{self._packages} packages found, downloads {got[1]} ({got[2]})"
        elif UNPACKING.match(line):
            self._said = f"unpacks {self._packages} packages"
        elif COMPILER_WARNING.match(line):
            self.compiler_warnings += 1

    def __str__(self) -> str:
        """Say how far the step is, in a few words."""
        return self._said


def run(label: str, log: Path, command: list[str]) -> int:
    """Run a command with its output in a log, showing progress; return its exit code.

    Args:
        label: The step's name, shown in front of everything.
        log: File to which the output is appended.
        command: The step.
    """
    progress, tail, start_s = Progress(), deque[str](maxlen=SHOWN_LINES), time.monotonic()
    every_s = TERMINAL_EVERY_S if sys.stdout.isatty() else EVERY_S
    _show(f"{label} ...", is_last=not sys.stdout.isatty())
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        reader = threading.Thread(target=_read, args=(process.stdout, log, progress, tail))
        reader.start()
        reader.join(every_s)
        while reader.is_alive():
            _show(f"{label}: {progress}, {time.monotonic() - start_s:.0f} s", is_last=not sys.stdout.isatty())
            reader.join(every_s)
        code = process.wait()
    _show(f"{label}: {'done' if code == 0 else 'failed'} after {time.monotonic() - start_s:.0f} s", is_last=True)
    if progress.compiler_warnings:
        sys.stdout.write(f"{label}: the compiler gave {progress.compiler_warnings} warnings, see {log}\n")
    if code != 0:
        sys.stdout.write("".join(tail) + f"the whole output is in {log}\n")
    return code if code >= 0 else 128 - code


def _read(output: IO[str], log: Path, progress: Progress, tail: deque[str]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        for line in output:
            file.write(line)
            tail.append(line)
            progress.read(line)


def _show(text: str, *, is_last: bool) -> None:
    start = "\r" if sys.stdout.isatty() else ""
    sys.stdout.write(start + (text[:COLUMNS].ljust(COLUMNS) if start else text) + ("\n" if is_last else ""))
    sys.stdout.flush()


def main() -> int:
    """Run the command line's step."""
    parser = argparse.ArgumentParser(description="Run a step of the set-up and show its progress.")
    parser.add_argument("--log", type=Path, required=True, help="file to which the output is appended")
    parser.add_argument("--label", required=True, help="name of the step")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the step's command, after --")
    arguments = parser.parse_args()
    try:
        return run(arguments.label, arguments.log, arguments.command[1:])
    except KeyboardInterrupt:  # the terminal has interrupted the step as well
        sys.stdout.write("\n")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
