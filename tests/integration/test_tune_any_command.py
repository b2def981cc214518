# SPDX-License-Identifier: Apache-2.0
"""Tuning a command whose knobs a file describes, from the first launch to the script of the winner."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ringtune.tuner import read_log
from tests.integration.jobs import ringtune, run_job, started
from tests.waiting import wait_until

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
MEETING = """
bucket=$(cat "$1"); cd "$2" || exit
echo "$RINGTUNE_LAUNCH_SLOT $bucket $1" >> launches
[ "$bucket" = 100 ] || touch "here-$RINGTUNE_LAUNCH_SLOT"
while [ "$bucket" != 100 ] && ! { [ -e here-0 ] && [ -e here-1 ]; }; do sleep 0.02; done
[ -e hang ] && [ "$(wc -l < launches)" -gt 7 ] && sleep 600
echo "took $((400 + bucket)) ms"; echo "loss 2.5"
"""
"""A command whose candidates wait for each other once, and from the eighth launch on hang while there is `hang`."""
MEETING_KNOBS = r"""
knobs:
  - {name: bucket, type: int, low: 1, high: 99, default: 100, pass: {text: CONFIG, placeholder: '@bucket@'}}
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


def test_launches_at_once_meet_are_ended_together_and_resumed(tmp_path: Path) -> None:
    """Two candidates run at the same time, with files of their own; the adoption test's launches are alone."""
    config, knobs, hang, record = (tmp_path / name for name in ("config", "knobs.yaml", "hang", "launches"))
    config.write_text("@bucket@", encoding="utf-8")
    hang.touch()
    knobs.write_text(MEETING_KNOBS.replace("CONFIG", str(config)), encoding="utf-8")
    command = ["sh", "-c", MEETING, "sh", str(config), str(tmp_path)]
    words = tune(
        tmp_path, command, "--target", "command", "--knobs", str(knobs), "--max-samples", "6", "--parallel", "2"
    )

    with started(words) as job:
        wait_until(lambda: record.exists() and len(record.read_text("utf-8").splitlines()) >= 9)
        job.process.send_signal(signal.SIGINT)
        ended = job.wait()
    hang.unlink()
    finished = run_job(words)

    assert 128 + signal.SIGINT == ended.code, ended.text
    assert 0 == finished.code, finished.text
    assert "resuming: 2 configs were measured before" in finished.stderr
    assert "chosen: bucket" in finished.stdout
    launches = [line.split() for line in record.read_text("utf-8").splitlines()]
    tested = sum(sample.phase == "adoption" for sample in read_log(tmp_path / "log").runs[-1].samples)
    assert ["0"] * tested == [slot for slot, _, _ in launches[-tested:]]
    assert {"0", "1"} == {slot for slot, _, _ in launches[1:5]}
    assert all(Path(path).parent.name == slot for slot, _, path in launches)
