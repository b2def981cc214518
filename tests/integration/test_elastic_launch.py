# SPDX-License-Identifier: Apache-2.0
"""`ringtune run --min-np`: workers are lost, added, removed and replaced while the others go on. Real processes."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.elastic_jobs import elastic_command, elastic_job, python, write_hosts
from tests.integration.jobs import ringtune, run_job, settled
from tests.integration.remote_shells import ONE, TWO, write_rsh


def test_survivors_go_on_without_a_killed_worker_and_another_takes_its_place(tmp_path: Path) -> None:
    """Rank 0 is killed; the step goes on from where the survivors are; the host is named and cools."""
    with elastic_job(tmp_path, "-np", "3", "--min-np", "2") as job:
        first, *others = job.until_size(3)
        step = job.kill(first)
        survivors = job.until_size(2, after_step=step)
        world = job.until_size(3, after_step=survivors[0].step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert {other.pid for other in others} == {state.pid for state in survivors}
    assert [state.pid for state in survivors] == [state.pid for state in world[:2]]
    assert (
        f"worker {first.worker} (host {os.uname().nodename}, pid {first.pid}, rank 0) was killed by SIGKILL; host "
        in (finished.stderr)
    )
    assert "2 workers meet after 1 reset: rank 0 is worker " in finished.stderr
    assert 3 == finished.stdout.count("] done after "), finished.text


def test_two_that_die_at_once_are_one_reset(tmp_path: Path) -> None:
    """The two others meet once, and the host is blamed once."""
    with elastic_job(tmp_path, "-np", "4", "--min-np", "2", "--blacklist-cooldown-range", "300", "300") as job:
        world = job.until_size(4)
        step = job.kill(world[1], world[3])
        job.until_size(2, after_step=step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("gets no new worker for 300 s"), finished.stderr
    assert 2 == finished.stderr.count("was killed by SIGKILL")
    assert 2 == finished.stderr.count("workers meet")


def test_hosts_are_added_and_removed_while_the_job_runs(tmp_path: Path) -> None:
    """A worker of a new host joins; that of a removed host commits, leaves and is not blamed."""
    script = write_hosts(tmp_path, f"{ONE}:1")
    options = ("-np", "1", "--host-discovery-script", script, "--rsh", write_rsh(tmp_path), "--network-interface", "lo")
    with elastic_job(tmp_path, *options) as job:
        (alone,) = job.until_size(1)
        write_hosts(tmp_path, f"{ONE}:1", f"{TWO}:2")
        world = job.until_size(3, after_step=alone.step)
        write_hosts(tmp_path, f"{TWO}:2")
        rest = job.until_size(2, after_step=world[0].step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert alone.pid == world[0].pid
    assert {state.pid for state in world[1:]} == {state.pid for state in rest}
    assert f"worker 0 (host {ONE}, pid {alone.pid}, rank 0) is to leave: its host has 0 slots now." in finished.stderr
    assert "[0] dismissed: " in finished.stdout
    assert "gets no new worker" not in finished.stderr


def test_a_job_that_stays_below_its_smallest_number_fails_and_says_why(tmp_path: Path) -> None:
    """The limit, the number of workers, and the pause of the host are named."""
    cooling = ("--blacklist-cooldown-range", "300", "300", "--elastic-timeout", "2")
    with elastic_job(tmp_path, "-np", "2", "--min-np", "2", *cooling) as job:
        job.kill(job.until_size(2)[0])
        finished = job.job.wait()

    assert 1 == finished.code, finished.text
    assert "the job has failed: for 2 s there were fewer than 2 workers (now " in finished.stderr
    assert "after a failure)" in finished.stderr


def test_exit_code_0_without_a_word_is_a_loss(tmp_path: Path) -> None:
    """Success is reported through the channel: the others go on, and a new worker comes."""
    with elastic_job(tmp_path, "-np", "2", "--min-np", "1") as job:
        world = job.until_size(2)
        job.order(f"exit0.{world[1].worker}")
        alone = job.until_size(1, after_step=world[1].step)
        job.until_size(2, after_step=alone[0].step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert "exited with code 0 without having said that its work is done; host " in finished.stderr


def test_a_discovery_that_lies_fails_hangs_and_floods_costs_one_warning_each(tmp_path: Path) -> None:
    """The last good answer holds; the job does not notice."""
    script = tmp_path / "lies.sh"
    answers = (
        f"echo {ONE}:1",
        "echo '<html>502 Bad Gateway</html>'; echo; printf '\\000\\377'",
        "exit 3",
        f"echo {ONE}:1; echo {ONE}:1",
        f"echo {ONE}:99999",
        "true",
        "yes",
        "sleep 600",
    )
    cases = "\n".join(f"{number}) {answer};;" for number, answer in enumerate(answers, start=1))
    script.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/looks\ncase $(grep -c x {tmp_path}/looks) in\n{cases}\nesac\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    options = ("-np", "1", "--rsh", write_rsh(tmp_path), "--network-interface", "lo")
    with elastic_job(tmp_path, *options, "--host-discovery-script", str(script)) as job:
        job.until_size(1)
        settled(lambda: [] if (tmp_path / "looks").read_text("utf-8").count("x") >= len(answers) else ["looks"])
        (alone,) = job.world()
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert 0 == alone.worker
    for words in ("names no host", "exit code 3", "named the host", "a number of slots", "named no host"):
        assert 1 == finished.stderr.count(words), (words, finished.stderr)
    assert "it printed more than" in finished.stderr


def test_a_job_begins_without_the_host_that_nobody_knows(tmp_path: Path) -> None:
    """A name that is gone when the job starts costs a warning, as it does later."""
    script = write_hosts(tmp_path, "nowhere.invalid:1", "localhost:1")
    options = ("--rsh", "false", "--blacklist-cooldown-range", "300", "300")
    with elastic_job(tmp_path, "-np", "1", "--min-np", "1", "--host-discovery-script", script, *options) as job:
        job.until_size(1)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("there is no way to host 'nowhere.invalid'"), finished.stderr
    assert "host nowhere.invalid is tried again in 300 s" in finished.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host-discovery-script", "/nowhere/hosts.sh"), "--host-discovery-script: it ended with exit code 127"),
        (("--hosts-from", "nowhere:hosts"), "--hosts-from: it raised ModuleNotFoundError"),
    ],
)
def test_a_discovery_that_is_not_there_fails_at_once(options: tuple[str, str], words: str) -> None:
    """A second look would find no more; the job does not wait for --elastic-timeout."""
    finished = run_job(ringtune("run", "--min-np", "1", *options, "true"), deadline_s=60)

    assert 1 == finished.code, finished.text
    assert f"the job has failed: {words}" in finished.stderr


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (python("raise SystemExit(7)"), 7, "exited with code 7"),
        (["true"], 1, "exited with code 0 before it had called init()"),
    ],
)
def test_a_program_that_fails_everywhere_ends_the_job(
    tmp_path: Path, command: list[str], code: int, words: str
) -> None:
    """No worker is started again and again: the code is the program's."""
    finished = run_job(elastic_command(tmp_path, "-np", "2", "--min-np", "1", command=command))

    assert code == finished.code, finished.text
    assert "the job has failed: worker " in finished.stderr
    assert words in finished.stderr


FAILS_AT_A_STEP = """
import os, sys, time
from pathlib import Path
import numpy as np
from ringtune import elastic
from ringtune.arrays import allreduce, init, rank

folder = Path(sys.argv[1])
(folder / f"came.{os.environ['RINGTUNE_WORKER_ID']}").touch()
init()

@elastic.run
def train(state):
    while state.step < 40:
        allreduce(np.ones(1), name="step")
        state.step += 1
        if state.step % 10 == 0:
            state.commit()
        if state.step == 19 and rank() == 0:
            failed = len(list(folder.glob("failed.*")))
            while len(list(folder.glob("came.*"))) < 2 + failed:
                time.sleep(0.01)
            (folder / f"failed.{failed}").touch()
            raise PermissionError("folder")

train(elastic.ObjectState(step=0))
"""


def test_a_program_that_fails_at_one_step_ends_while_others_are_being_started(tmp_path: Path) -> None:
    """Each rank 0 fails between two commits; the second one only when a third worker was started for the first."""
    program = [*python(FAILS_AT_A_STEP), str(tmp_path)]
    finished = run_job(elastic_command(tmp_path, "-np", "2", "--min-np", "1", "--max-np", "2", command=program))

    assert 1 == finished.code, finished.text
    assert "(PermissionError: folder, at step 19), and 1 other worker after it, with no newer commit" in finished.stderr
    assert ["failed.0", "failed.1"] == sorted(path.name for path in tmp_path.glob("failed.*"))


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_of_the_user_ends_all_workers(tmp_path: Path, number: signal.Signals) -> None:
    """The exit code tells which; no worker is replaced."""
    script = write_hosts(tmp_path, f"{ONE}:1", "localhost:1")
    options = ("-np", "2", "--host-discovery-script", script, "--rsh", write_rsh(tmp_path), "--network-interface", "lo")
    with elastic_job(tmp_path, *options) as job:
        job.until_size(2)
        os.kill(job.job.process.pid, number)
        finished = job.job.wait()

    assert 128 + number == finished.code, finished.text
    assert f"ended by {number.name}, which was passed on to the workers." in finished.stderr
    assert "gets no new worker" not in finished.stderr


def test_nothing_is_left_when_the_launcher_is_killed(tmp_path: Path) -> None:
    """Workers here and elsewhere, the finder and its script end with it."""
    script = write_hosts(tmp_path, f"{ONE}:1", "localhost:1")
    options = ("-np", "2", "--rsh", write_rsh(tmp_path), "--network-interface", "lo")
    slow = f"{script}; [ -e {tmp_path}/stuck ] && sleep 600"
    with elastic_job(tmp_path, *options, "--host-discovery-script", f"{slow}; true") as job:
        job.until_size(2)
        job.order("stuck")
        os.kill(job.job.process.pid, signal.SIGKILL)
