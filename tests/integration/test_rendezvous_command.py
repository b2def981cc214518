# SPDX-License-Identifier: Apache-2.0
"""`ringtune rendezvous`: its address, the events that it reports, and the exit code that says how the job has ended."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import Job, forked, ringtune, run_job, started, started_by_fork
from tests.integration.ports import free_port
from tests.integration.rendezvous_servers import BareWorker, joining
from tests.integration.worlds import KEY, run_all_forked

LOSES = "import os; from ringtune.session.session import SESSION; SESSION.init(); os._exit(0)"


@contextmanager
def serving(*options: str) -> Iterator[tuple[Job, str]]:
    """Run the command; give its process and its address."""
    with started(ringtune("rendezvous", *options), {"RINGTUNE_JOB_KEY": KEY}) as job:
        assert job.process.stdout is not None
        yield job, job.process.stdout.readline().strip()


def on_loopback(*options: str) -> Sequence[str]:
    """Return options with a port of loopback."""
    return (*options, "--listen", f"127.0.0.1:{free_port()}")


def test_a_job_that_ends_well_is_0() -> None:
    """The meetings are reported; the default address is one of this host's."""
    with serving("-np", "2") as (job, address):
        workers = run_all_forked([forked("where", "2")] * 2, [joining(address)] * 2)
        finished = job.wait()

    assert [0, 0, 0] == [finished.code, *(worker.code for worker in workers)], finished.text
    assert "meeting 1 of 2 workers, by rank 0: host " in finished.stderr
    assert finished.stderr.endswith("ringtune rendezvous: the job has ended: all its workers are done.\n")


def test_a_lost_worker_is_1() -> None:
    """A worker that exits with 0 and without a word is lost, and named."""
    with serving(*on_loopback("-np", "1")) as (job, address):
        run_job([sys.executable, "-c", LOSES], joining(address))
        finished = job.wait()

    assert 1 == finished.code, finished.text
    assert "ringtune rendezvous: a worker was lost (host " in finished.stderr
    assert "ringtune rendezvous: the job has failed: rank 0 (host " in finished.stderr


def test_too_few_workers_are_1() -> None:
    """Server and worker both say so."""
    with serving(*on_loopback("-np", "2", "--timeout", "1")) as (job, address):
        (worker,) = run_all_forked([forked("where")], [joining(address)])
        finished = job.wait()

    assert (1, 1) == (worker.code, finished.code), finished.text
    assert "there were not enough workers in time" in finished.stderr


def test_no_worker_at_all_is_1() -> None:
    """No worker comes within the limit."""
    with serving(*on_loopback("-np", "2", "--timeout", "1")) as (job, _):
        finished = job.wait()

    assert 1 == finished.code
    assert "no worker was there for 1 s; none came" in finished.stderr, finished.text


def test_an_elastic_job_outlives_the_loss_of_all_its_workers() -> None:
    """All workers are lost and others come: the job goes on, and its end is the end of those."""
    with serving(*on_loopback("--min-np", "1", "--max-np", "1")) as (job, address):
        lost = BareWorker(address)
        lost.hear("address")
        lost.die()
        (worker,) = run_all_forked([forked("where")], [joining(address)])
        finished = job.wait()

    assert (0, 0) == (worker.code, finished.code), finished.text
    assert "a worker was lost (host bare, pid 1)" in finished.stderr


def test_a_range_of_workers_meets_without_the_last() -> None:
    """The first meeting of fewer than the largest number begins after the quiet time."""
    with serving(*on_loopback("--min-np", "1", "--max-np", "3", "--quiet", "0.5")) as (job, address):
        (worker,) = run_all_forked([forked("where")], [joining(address)])
        finished = job.wait()

    assert (0, 0) == (worker.code, finished.code), finished.text


def test_a_refused_worker_is_reported() -> None:
    """The job has its workers; another one is refused, and the job goes on."""
    with serving(*on_loopback("-np", "1")) as (job, address), ExitStack() as stack:
        there = BareWorker(address)
        there.hear("address")
        worker = stack.enter_context(started_by_fork(forked("where"), joining(address)))
        refused = worker.wait()
        there.say("done")
        finished = job.wait()

    assert (1, 0) == (refused.code, finished.code), finished.text
    assert "a worker was refused (host " in finished.stderr


def test_more_workers_meet_than_files_are_open_by_default() -> None:
    """The soft limit of open files is no limit of the workers."""
    command = ["sh", "-c", 'ulimit -S -n 48 && exec "$@"', "sh", *ringtune("rendezvous", *on_loopback("-np", "64"))]
    with started(command, {"RINGTUNE_JOB_KEY": KEY}) as job:
        assert job.process.stdout is not None
        address = job.process.stdout.readline().strip()
        workers = [BareWorker(address) for _ in range(64)]
        places = [worker.hear("place") for worker in workers]
        workers[0].say("listening", number=0, address="tcp://127.0.0.1:9")
        for worker in workers:
            worker.hear("address")
            worker.say("done")
            worker.die()
        finished = job.wait()

    assert list(range(64)) == sorted(place["rank"] for place in places)
    assert 0 == finished.code, finished.text


def test_a_signal_ends_the_server() -> None:
    """The exit code names the signal."""
    with serving(*on_loopback("-np", "1")) as (job, _):
        os.kill(job.process.pid, signal.SIGTERM)
        finished = job.wait()

    assert 128 + signal.SIGTERM == finished.code, finished.text
    assert "ended by a signal; workers that train go on" in finished.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "the number of workers is missing"),
        (("-np", "2", "--min-np", "1"), "-np names a fixed number of workers"),
        (("--min-np", "3", "--max-np", "2"), "3 to 2 workers are not possible"),
        (("-np", "0"), "0 to 0 workers are not possible; allowed: 1 to 1000"),
        (("-np", "2", "--listen", "nowhere"), "--listen 'nowhere' is not allowed; allowed: HOST:PORT"),
        (("-np", "2", "--listen", "192.0.2.77:1"), "no interface of this host has that address"),
        (("-np", "2", "--timeout", "0"), "--timeout and --grace must be above 0"),
    ],
)
def test_wrong_options_are_a_sentence(options: Sequence[str], words: str) -> None:
    """The command ends without a server."""
    finished = run_job(ringtune_words("rendezvous", *options), {"RINGTUNE_JOB_KEY": KEY})

    assert (2, "") == (finished.code, finished.stdout), finished.text
    assert words in finished.stderr


def test_a_missing_key_is_a_sentence() -> None:
    """The line that makes one is shown."""
    finished = run_job(ringtune_words("rendezvous", "-np", "2"))

    assert 2 == finished.code
    assert "export RINGTUNE_JOB_KEY=$(openssl rand -hex 32)" in finished.stderr, finished.text
