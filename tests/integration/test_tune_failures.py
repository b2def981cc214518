# SPDX-License-Identifier: Apache-2.0
"""Failures while a command is tuned: the program's words, the exit code, and the winner without a file."""

from pathlib import Path

from tests.integration.tuned_commands import tune_script


def test_configs_that_all_fail_are_the_verdict(tmp_path: Path) -> None:
    """A misspelt knob fails every launch: the verdict has the program's words, and the exit code is 1."""
    script = (
        "import os, sys\n"
        "if 'HOROVOD_FUSION_THRESHOLD' in os.environ: sys.exit('no such option')\n"
        "print('ringtune: step_ms=5')\n"
    )

    finished = tune_script(tmp_path, script)

    assert 1 == finished.code, finished.text
    assert "verdict: keeping default: all 4 tried configs failed, the last with: failed with" in finished.stdout
    assert 4 == sum(
        row.startswith("refused: ") and row.endswith(": no such option") for row in finished.stdout.splitlines()
    )
    assert "the budget had no room" not in finished.text


def test_failures_of_the_defaults_are_in_the_verdict(tmp_path: Path) -> None:
    """A command that fails now and then gives no reason to trust a comparison without a word about it."""
    script = (
        "import os, pathlib, sys\n"
        "if 'HOROVOD_FUSION_THRESHOLD' in os.environ: sys.exit('no such option')\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count.write_text((count.read_text() if count.exists() else '') + 'x')\n"
        "if count.stat().st_size == 2: sys.exit('by chance')\n"
        "print('ringtune: step_ms=5')\n"
    )

    finished = tune_script(tmp_path, script)

    assert "no such option; the defaults failed 1 of 4 launches too\n" in finished.stdout, finished.text


def test_a_winner_without_a_file_is_still_shown(tmp_path: Path) -> None:
    """A folder that vanishes during the search costs the file, and not the answer."""
    script = (
        "import os, pathlib\n"
        f"out = pathlib.Path({str(tmp_path / 'out')!r})\n"
        "if not out.exists(): out.write_text('in the way')\n"
        "print('ringtune: step_ms=', 1 if 'HOROVOD_FUSION_THRESHOLD' in os.environ else 5, sep='')\n"
    )

    finished = tune_script(tmp_path, script)

    assert 2 == finished.code, finished.text
    assert "chosen: fusion_bytes" in finished.stdout
    assert "cannot be written" in finished.stderr
