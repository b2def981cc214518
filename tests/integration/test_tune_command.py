# SPDX-License-Identifier: Apache-2.0
"""Tuning a command by launching it: the cost of misbehaviour, the files, and a resumed run's knowledge."""

import os
import signal
import time
from pathlib import Path

import pytest

from ringtune.tuner import read_log
from ringtune.tuning.job.host_lock import HostLock
from tests.integration.jobs import DEADLINE_S, Job, ringtune, run_job, started, wait_for_line
from tests.integration.tuned_commands import launches, tune, tune_script, tuned_program

MIB = 2**20
SLOW_STEPS = 400
"""Together they take as long as a launch may."""


def first_word(job: Job) -> str:
    """Return the first line that a job writes to stderr."""
    assert job.process.stderr is not None
    return job.process.stderr.readline()


def test_the_winner_is_written_for_the_engine(tmp_path: Path) -> None:
    """A shell that reads the file has the variable; the result names file, choice, speed-up and the knob."""
    finished = run_job(tune(tmp_path, tuned_program(tmp_path)))

    assert 0 == finished.code, finished.text
    written = tmp_path / "out" / "horovod.sh"
    shell = run_job(["sh", "-c", f". {written} && echo $HOROVOD_FUSION_THRESHOLD $HOROVOD_AUTOTUNE"])
    threshold, own_tuner = shell.stdout.split()
    assert int(threshold) > MIB
    assert "0" == own_tuner
    assert "speed-up: +100.0 %" in finished.stdout
    assert f"written: {written}\n" in finished.stdout
    assert "chosen: fusion_bytes" in finished.stdout
    assert "ended: The search ended because all 4 samples of --max-samples=4 were used.\n" in finished.stdout
    assert "matters: fusion_bytes: " in finished.stdout
    assert ["unset"] * 3 == launches(tmp_path)[:3], "the baseline comes first"


def test_a_command_waits_for_its_turn(tmp_path: Path) -> None:
    """No command is launched while another job of the host tunes; Ctrl-C ends the wait, or the turn comes."""
    path = tmp_path / "tuning.lock"
    lock = HostLock(path, pytest.fail)
    assert lock.try_take()
    command = tune(tmp_path, tuned_program(tmp_path))

    with started(command, {"AUTOTUNE_LOCK": str(path)}) as job:
        assert "this command waits its turn" in first_word(job)
        job.process.send_signal(signal.SIGINT)
        interrupted = job.wait()
    assert [] == launches(tmp_path)
    with started(command, {"AUTOTUNE_LOCK": str(path)}) as job:
        assert f"(pid {os.getpid()}) is tuning; this command waits its turn" in first_word(job)
        lock.release()
        finished = job.wait()

    assert 128 + signal.SIGINT == interrupted.code, interrupted.text
    assert 0 == finished.code, finished.text
    assert "written: " in finished.stdout


def test_nothing_to_gain_is_nothing_written(tmp_path: Path) -> None:
    """Constant step times leave the defaults in force."""
    finished = tune_script(tmp_path, "for i in range(9): print('ringtune: step_ms=5.0')")

    assert 0 == finished.code, finished.text
    assert "chosen: keeping default" in finished.stdout
    assert not (tmp_path / "out").exists()


def test_a_config_that_fails_is_launched_once_and_costs_nothing_else(tmp_path: Path) -> None:
    """The run goes on; the line says how it failed, with the command's last words."""
    finished = run_job(tune(tmp_path, tuned_program(tmp_path, f"fails-below={64 * MIB}")))

    assert 0 == finished.code, finished.text
    tried = launches(tmp_path)
    failed = {threshold for threshold in tried if threshold != "unset" and int(threshold) < 64 * MIB}
    assert failed
    assert [1] * len(failed) == [tried.count(threshold) for threshold in failed]
    assert "failed with exit code 1" in finished.stderr
    assert "this threshold is too small for me" in finished.stderr
    assert "chosen: fusion_bytes" in finished.stdout


def test_a_config_that_hangs_is_ended_with_all_it_has_started(tmp_path: Path) -> None:
    """Within the limit and the moment of grace; `run_job` finds whatever is left."""
    finished = run_job(
        tune(
            tmp_path,
            tuned_program(tmp_path, f"hangs-below={512 * MIB}"),
            "--trial-timeout-s",
            "6",
            "--max-samples",
            "1",
        )
    )

    assert 0 == finished.code, finished.text
    assert "did not end within 6" in finished.stderr
    assert "chosen: keeping default" in finished.stdout
    assert 4 == len(launches(tmp_path)), "three of the baseline, one that hangs"


def test_a_command_that_ignores_requests_to_end_is_killed(tmp_path: Path) -> None:
    """A child that left its session is killed as well, and every other process of the command."""
    script = (
        "import os, signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen(['sh', '-c', 'trap \"\" TERM; sleep 600'], start_new_session=True)\n"
        "time.sleep(600)\n"
    )

    finished = tune_script(tmp_path, script, "--trial-timeout-s", "0.5")

    assert 1 == finished.code, finished.text
    assert "did not end within" in finished.stderr


def test_what_a_command_leaves_behind_does_not_disturb_the_next_launch(tmp_path: Path) -> None:
    """A command that ends while a child of it holds its output is over when it ends."""
    script = (
        "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\nprint('ringtune: step_ms=5.0')"
    )

    finished = tune_script(tmp_path, script, "--max-samples", "1")

    assert 0 == finished.code, finished.text


def test_a_fast_config_with_wrong_results_is_no_winner(tmp_path: Path) -> None:
    """The config is launched once, its result is named, and the defaults stay."""
    script = (
        "import os\n"
        "wrong = 'HOROVOD_FUSION_THRESHOLD' in os.environ\n"
        "print('ringtune: result=1.0')\n"
        "print('ringtune: result=', 7.5 if wrong else 7.25, sep='')\n"
        "for i in range(9): print('ringtune: step_ms=', 1 if wrong else 5, sep='')"
    )

    finished = tune_script(tmp_path, script)

    assert 0 == finished.code, finished.text
    assert "gave wrong results: result 2 is 7.5, with nothing set it is 7.25" in finished.stderr
    assert "chosen: keeping default" in finished.stdout
    assert "results: compared with those of the defaults: 2 per launch, to 0.001; the defaults' own" in finished.stdout
    assert "refused: fusion_bytes " in finished.stdout
    assert "gave wrong results: result 2 is 7.5" in finished.stdout
    samples = [sample for sample in read_log(tmp_path / "log").runs[0].samples if sample.phase == "search"]
    assert ["launch_failed"] * len(samples) == [sample.reason for sample in samples]


def test_the_tolerance_of_results_is_the_users(tmp_path: Path) -> None:
    """A difference by another order of additions is no fault; without results the message shows how to print them."""
    script = (
        "import os\n"
        "fast = 'HOROVOD_FUSION_THRESHOLD' in os.environ\n"
        "print('ringtune: result=', 7.5 if fast else 7.25, sep='')\n"
        "for i in range(9): print('ringtune: step_ms=', 1 if fast else 5, sep='')"
    )

    tolerant = tune_script(tmp_path, script, "--result-tolerance", "0.1")
    silent = tune_script(tmp_path, "for i in range(9): print('ringtune: step_ms=5.0')")

    assert "chosen: fusion_bytes" in tolerant.stdout, tolerant.text
    assert "results: not compared: the command prints none; let it print" in silent.stdout, silent.text


def test_a_baseline_whose_results_change_ends_the_run(tmp_path: Path) -> None:
    """No config could be compared with it."""
    script = "import time; print('ringtune: result=', time.time_ns(), sep=''); print('ringtune: step_ms=5')"

    finished = tune_script(tmp_path, script, "--result-tolerance", "0")

    assert 1 == finished.code, finished.text
    assert "does not repeat its own results: result 1 was " in finished.stderr
    assert "give a --result-tolerance above the spread" in finished.stderr


def test_a_score_that_is_no_number_above_zero_is_shown(tmp_path: Path) -> None:
    """The pattern has found a text: the message quotes it."""
    finished = tune_script(tmp_path, "print('accuracy -0.08')", "--score-regex", "accuracy ([-0-9.]+)")

    assert 1 == finished.code, finished.text
    assert "printed the score '-0.08', which is no number above zero" in finished.stderr


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('out of memory')", "failed with exit code 1"),
        ("pass", "printed no score; let it print lines such as 'ringtune: step_ms=12.3'"),
        ("import os; os.write(1, bytes(range(256)) * 999 + b'ringtune: step_ms=nan')", "printed no score"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed with exit code 139"),
    ],
)
def test_a_baseline_that_fails_ends_the_run(tmp_path: Path, script: str, message: str) -> None:
    """At its first launch, with exit code 1 and the command's last lines."""
    finished = tune_script(tmp_path, script)

    assert 1 == finished.code, finished.text
    assert "ringtune: error: without anything being set, " in finished.stderr
    assert message in finished.stderr
    assert "Its last lines:\n" in finished.stderr or "It printed nothing." in finished.stderr
    assert not (tmp_path / "out").exists()


def test_a_command_that_is_not_there_is_a_wrong_request(tmp_path: Path) -> None:
    """Said before anything is launched."""
    finished = run_job(tune(tmp_path, ["no-such-program"]))

    assert 2 == finished.code, finished.text
    assert "'no-such-program' cannot be launched: there is no such program" in finished.stderr


def test_a_score_of_the_users_own(tmp_path: Path) -> None:
    """More of it is better; it may come on either stream."""
    script = (
        "import os, sys\n"
        "fast = int(os.environ.get('HOROVOD_FUSION_THRESHOLD', 0)) > 2**20\n"
        "for i in range(5): print('speed', (100 if fast else 50) + i % 2, 'img/s', file=sys.stderr)\n"
    )

    finished = tune_script(tmp_path, script, "--score-regex", r"speed (\d+) img/s", "--higher-is-better")

    assert 0 == finished.code, finished.text
    assert "baseline: the defaults, score 50" in finished.stdout
    assert "chosen: fusion_bytes" in finished.stdout


def test_the_duration_of_the_launch_as_the_score(tmp_path: Path) -> None:
    """A launch that takes over twice as long as the defaults is ended early, and that counts as its time."""
    script = "import os, time; time.sleep(30 if 'HOROVOD_FUSION_THRESHOLD' in os.environ else 0.2)"

    finished = tune_script(tmp_path, script, "--score", "wall", "--max-samples", "2")

    assert 0 == finished.code, finished.text
    assert "one step, cut, its steps ran over the limit" in finished.stderr
    samples = [s for s in read_log(tmp_path / "log").runs[0].samples if s.phase == "search"]
    assert 2 == len(samples)
    assert all(sample.valid for sample in samples)


def test_slow_steps_end_a_launch_early(tmp_path: Path) -> None:
    """Three warm steps after the three cold ones are enough: a hopeless config does not get its full time."""
    script = (
        "import os, time\n"
        "slow = 'HOROVOD_FUSION_THRESHOLD' in os.environ\n"
        f"for i in range({SLOW_STEPS} if slow else 20):\n"
        "    print('ringtune: step_ms=', 50 if slow else 5, sep='', flush=True); time.sleep(0.05 if slow else 0)\n"
    )

    finished = tune_script(tmp_path, script, "--max-samples", "1")

    assert 0 == finished.code, finished.text
    (sample,) = [s for s in read_log(tmp_path / "log").runs[0].samples if s.phase == "search"]
    assert sample.valid
    assert 6 <= sample.steps < SLOW_STEPS


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """The search launches no config again that was measured or failed; no process outlives the kill."""
    program_of_both = tuned_program(tmp_path, f"fails-below={2 * MIB}", "hangs-in=9")
    command = tune(tmp_path, program_of_both, "--max-samples", "12", "--trial-timeout-s", "80")
    with started(command) as job:
        wait_until_launched(tmp_path, 9)
        job.process.send_signal(signal.SIGKILL)
        job.wait()
    searched = {
        str(sample.config["fusion_bytes"])
        for run in read_log(tmp_path / "log").runs
        for sample in run.samples
        if sample.phase == "search"
    }
    before = len(launches(tmp_path))

    finished = run_job(command)

    assert 0 == finished.code, finished.text
    assert "resuming:" in finished.stderr
    resumed = read_log(tmp_path / "log").runs[-1]
    again = {str(sample.config["fusion_bytes"]) for sample in resumed.samples if sample.phase == "search"}
    relaunched = launches(tmp_path)[before:]
    adopted = {str(sample.config["fusion_bytes"]) for sample in resumed.samples if sample.phase == "adoption"}
    assert searched
    assert set() == searched & again
    assert [] == [value for value in relaunched if value in searched - adopted]


def test_the_user_may_end_it(tmp_path: Path) -> None:
    """The running command is ended, the best so far shown, the log resumable; no file for the engine is written."""
    with started(tune(tmp_path, tuned_program(tmp_path, f"hangs-below={512 * MIB}"))) as job:
        wait_until_launched(tmp_path, 4)
        job.process.send_signal(signal.SIGINT)
        finished = job.wait()

    assert 128 + signal.SIGINT == finished.code, finished.text
    assert "The best launch so far, which no test has confirmed: 20" in finished.stderr
    assert "Unfinished: the run was ended in the " in finished.stderr
    assert "Set --max-steps or --max-seconds, and the tuner decides in time." in finished.stderr
    assert "resumes from" in finished.stderr
    assert "ended: The search ended in the search phase because it was interrupted.\n" in finished.stdout
    assert read_log(tmp_path / "log").runs[0].result is None
    assert not (tmp_path / "out").exists()


def test_what_the_user_has_set_is_left_alone(tmp_path: Path) -> None:
    """A setting of the user holds in every launch, the defaults included."""
    command = tune(tmp_path, tuned_program(tmp_path), "--only", "fusion_bytes,cycle_ms", "--max-samples", "2")

    finished = run_job(command, {"HOROVOD_FUSION_THRESHOLD": str(4 * MIB)})

    assert 0 == finished.code, finished.text
    assert "HOROVOD_FUSION_THRESHOLD is set in the environment: fusion_bytes is left alone" in finished.stderr
    assert {str(4 * MIB)} == set(launches(tmp_path))


def test_nothing_left_to_vary_is_said(tmp_path: Path) -> None:
    """Without a launch."""
    finished = run_job(tune(tmp_path, tuned_program(tmp_path)), {"HOROVOD_FUSION_THRESHOLD": "1"})

    assert 0 == finished.code, finished.text
    assert "keeping default: nothing to tune" in finished.stdout
    assert [] == launches(tmp_path)


def wait_until_launched(folder: Path, count: int) -> None:
    """Wait until the program was launched so often."""
    wait_for_line(folder / "launches")
    end_s = time.monotonic() + DEADLINE_S
    while len(launches(folder)) < count:
        assert time.monotonic() < end_s, launches(folder)
        time.sleep(0.02)


def test_nccl_is_tuned_through_the_installed_plugin(tmp_path: Path) -> None:
    """A trial names the plugin and a table that is there; the baseline has neither; the winner's file loads both."""
    script = (
        "import os, ctypes\n"
        "plugin, table = os.environ.get('NCCL_TUNER_PLUGIN'), os.environ.get('RINGTUNE_NCCL_TABLE')\n"
        "assert not [name for name in os.environ if name in ('NCCL_PROTO', 'NCCL_ALGO')]\n"
        "if plugin: ctypes.CDLL(plugin).ncclTunerPlugin_v6; assert open(table, 'rb').read(7) == b'RTNCCLT'\n"
        "print('plugin', bool(plugin))\n"
        "for i in range(9): print('ringtune: step_ms=', 1 if plugin else 5, sep='')"
    )

    finished = tune_script(tmp_path, script, "--target", "nccl", "--only", "protocol")

    assert 0 == finished.code, finished.text
    assert "chosen: protocol " in finished.stdout
    conf = (tmp_path / "out" / "nccl.conf").read_text(encoding="utf-8")
    assert f"RINGTUNE_NCCL_TABLE={tmp_path / 'out' / 'nccl-tuner.table'}\n" in conf
    plugin = run_job(ringtune("nccl-plugin")).stdout.strip()
    assert f"NCCL_TUNER_PLUGIN={plugin}\n" in conf
    assert Path(plugin).is_file()
