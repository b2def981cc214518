# SPDX-License-Identifier: Apache-2.0
"""Tuning a command whose knobs a file describes, from the first launch to the script of the winner."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ringtune.tuner import read_log
from tests.integration.jobs import ringtune, run_job

SCRIPT = """
import json, sys
bucket = json.load(open(sys.argv[1]))['bucket']
if bucket > 500: sys.exit('out of memory')
print('bucket', bucket, 'loss', 2.5)
for i in range(9): print('took', 5 + abs(bucket - 20) / 20, 'ms')
"""
KNOBS = r"""
knobs:
  - {name: bucket, type: int, low: 1, high: 1000, scale: log2, pass: {json: {path: CONFIG}, key: bucket}}
score_regex: took (\S+) ms
result_regex: loss (\S+)
"""


def tune(folder: Path, command: Sequence[str], *options: str) -> list[str]:
    """Return the command line that tunes a command for few trials, with its files in a folder."""
    files = ["--output", str(folder / "out"), "--log", str(folder / "log")]
    return ringtune("tune", "--designer", "random", "--pairs", "2", *files, *options, "--", *command)


def test_any_command_is_tuned_by_a_file_of_knobs(tmp_path: Path) -> None:
    """The winner's script runs the command with a copy of its file; other knobs are another study."""
    config, knobs = tmp_path / "config.json", tmp_path / "knobs.yaml"
    config.write_text('{"bucket": 400}', encoding="utf-8")
    knobs.write_text(KNOBS.replace("CONFIG", str(config)), encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, str(config)]
    options = ("--target", "command", "--knobs", str(knobs))

    finished = run_job(tune(tmp_path, command, *options, "--max-samples", "4"))

    assert 0 == finished.code, finished.text
    assert "results: compared with those of the defaults: 1 per launch" in finished.stdout
    assert '{"bucket": 400}' == config.read_text("utf-8")
    winner = run_job([str(tmp_path / "out" / "command.sh")])
    assert 0 == winner.code, winner.text
    bucket = int(winner.stdout.split()[1])
    assert f"chosen: bucket {bucket}\n" in finished.stdout
    assert bucket < 400
    knobs.write_text(knobs.read_text("utf-8").replace("high: 1000", "high: 600"), encoding="utf-8")
    again = run_job(tune(tmp_path, command, *options, "--max-samples", "1"))
    assert 0 == again.code, again.text
    models = [log.run.key["model"] for log in read_log(tmp_path / "log").runs if log.run is not None]
    assert (2, 2) == (len(models), len(set(models)))


def test_a_file_of_knobs_is_for_commands_alone(tmp_path: Path) -> None:
    """Engines have knobs of their own; a command has none without a file."""
    given = run_job(tune(tmp_path, ["true"], "--target", "horovod", "--knobs", "k.yaml"))
    missing = run_job(tune(tmp_path, ["true"], "--target", "command"))

    assert (2, 2) == (given.code, missing.code)
    assert "--knobs describes the knobs of a command; --target horovod has its own" in given.stderr
    assert "--target command needs --knobs FILE" in missing.stderr
