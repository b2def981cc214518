# SPDX-License-Identifier: Apache-2.0
"""Commands that `ringtune tune` launches for few trials, with one knob."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import Finished, program, run_job


def tune(folder: Path, command: Sequence[str], *options: str) -> list[str]:
    """Return the command line that tunes a command for few trials, with its files in a folder; later options hold."""
    files = ["--output", str(folder / "out"), "--log", str(folder / "log")]
    quick = ["--max-samples", "4", "--pairs", "2", "--trial-timeout-s", "20", "--only", "fusion_bytes"]
    target = ["--target", "horovod", "--designer", "random"]
    return ringtune_words("tune", *target, *files, *quick, *options, "--", *command)


def tune_script(folder: Path, script: str, *options: str) -> Finished:
    """Tune a Python script to the end."""
    return run_job(tune(folder, [sys.executable, "-c", script], *options))


def tuned_program(folder: Path, *options: str) -> list[str]:
    """Return the command line of the program that is tuned."""
    return program("tuned_program", str(folder / "launches"), *options)


def launches(folder: Path) -> list[str]:
    """Return the fusion threshold of each launch so far."""
    path = folder / "launches"
    return path.read_text(encoding="utf-8").split() if path.exists() else []
