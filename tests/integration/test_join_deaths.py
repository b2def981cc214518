# SPDX-License-Identifier: Apache-2.0
"""Workers that get their ranks on arrival, and deaths at every point: of ranks, newcomers and the server."""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.attendance import LEAST_PATIENCE_S
from ringtune.meeting.rendezvous.roster import FixedRoster, RangeRoster
from ringtune.meeting.rendezvous.server import Patience
from tests.integration.forked_ranks import ForkedProcess
from tests.integration.jobs import DEADLINE_S, JobOf, forked, run_job, started, started_by_fork
from tests.integration.ports import free_port
from tests.integration.rendezvous_servers import BareWorker, Served, joining, served
from tests.integration.worlds import check_places, places, run_all_forked
from tests.waiting import wait_until

PROMPT_S = 60.0  # far below the limits at which something would be given up


def begin(stack: ExitStack, environ: Mapping[str, str], name: str, *arguments: str) -> JobOf[ForkedProcess]:
    """Start a worker."""
    return stack.enter_context(started_by_fork(forked(name, *arguments), environ))


def world_files(folder: Path, size: int) -> list[Path]:
    """Return the files that the workers of a world of some size have left, by rank."""
    return sorted(folder.glob(f"{size}.*"))


def await_world(folder: Path, size: int) -> None:
    """Wait for a world of some size."""
    wait_until(lambda: len(world_files(folder, size)) == size, DEADLINE_S)


def rank_of(folder: Path, size: int, job: JobOf[ForkedProcess]) -> int:
    """Return the rank that a worker had in the latest world of some size."""
    (found,) = folder.glob(f"{size}.*.{job.process.pid}")
    return int(found.name.split(".")[1])


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_rank_0_that_dies_before_it_listens_costs_nothing(deaths: int) -> None:
    """The others get new ranks at once, when one dies and when two die together."""
    with served(RangeRoster(2, 2 + deaths, DEADLINE_S)) as server, ExitStack() as stack:
        bare = [BareWorker(server.address) for _ in range(deaths)]
        jobs = [begin(stack, joining(server.address), "where") for _ in range(2)]
        assert list(range(deaths)) == [worker.hear("place")["rank"] for worker in bare]
        for worker in bare:
            worker.die()
        # The roster expects a third one for a long while, for no meeting has begun: a newcomer ends the wait.
        jobs += [begin(stack, joining(server.address), "where") for _ in range(deaths)]
        found = places([job.wait() for job in jobs])

    check_places(found, (0,) * (2 + deaths), "shm")


def test_a_rank_0_that_dies_before_the_others_reach_it_is_no_hang() -> None:
    """Its address leads nowhere; the server says that it has ended, and the others meet anew."""
    with served(RangeRoster(2, 3, 0.5)) as server, ExitStack() as stack:
        bare = BareWorker(server.address)
        jobs = [begin(stack, joining(server.address), "joins_until_met") for _ in range(2)]
        number = bare.hear("place")["number"]
        bare.say("listening", number=number, address=f"tcp://127.0.0.1:{free_port()}")
        bare.hear("address")
        bare.die()
        finished = [job.wait() for job in jobs]

    for job in finished:
        assert 0 == job.code, job.text
        assert "lost: rank 0 (host bare, pid 1) ended during init" in job.stdout, job.text
        assert job.seconds < PROMPT_S, job.text
    assert {"rank 0 of 2: 2", "rank 1 of 2: 2"} == {job.stdout.splitlines()[-1] for job in finished}


def test_another_rank_that_dies_before_it_reaches_rank_0_is_no_hang() -> None:
    """Rank 0 hears of it from the server and ends the meeting for all."""
    with served(RangeRoster(2, 3, DEADLINE_S)) as server, ExitStack() as stack:
        jobs = [begin(stack, joining(server.address), "joins_until_met") for _ in range(2)]
        wait_until(lambda: len(server.workers()) == 2)
        bare = BareWorker(server.address)
        bare.hear("address")
        bare.die()
        finished = [job.wait() for job in jobs]

    for job in finished:
        assert 0 == job.code, job.text
        assert "(host bare, pid 1) ended during init" in job.stdout, job.text
        assert job.seconds < PROMPT_S, job.text
    assert {"rank 0 of 2: 2", "rank 1 of 2: 2"} == {job.stdout.splitlines()[-1] for job in finished}


def trained(stack: ExitStack, server: Served, folder: Path, count: int) -> list[JobOf[ForkedProcess]]:
    """Start workers that train, and wait for their world."""
    jobs = [begin(stack, joining(server.address), "adds_up_elastically", str(folder)) for _ in range(count)]
    await_world(folder, count)
    return jobs


@pytest.mark.parametrize("killed", [[0], [1], [0, 2]])
def test_survivors_meet_anew_and_keep_their_order(tmp_path: Path, killed: list[int]) -> None:
    """After deaths in training, rank 0 and two at once among them, the rest goes on with its state."""
    with served(RangeRoster(1, 3, 60.0)) as server, ExitStack() as stack:
        jobs = sorted(trained(stack, server, tmp_path, 3), key=lambda job: rank_of(tmp_path, 3, job))
        for rank in killed:
            jobs[rank].process.kill()
        survivors = [job for rank, job in enumerate(jobs) if rank not in killed]
        await_world(tmp_path, len(survivors))

        assert list(range(len(survivors))) == [rank_of(tmp_path, len(survivors), job) for job in survivors]
        (tmp_path / "stop").touch()
        finished = [job.wait() for job in survivors]
        wait_until(lambda: not server.workers())
        assert ((), True) == (server.losses(), server.is_ending())

    assert all(job.code == 0 and job.stdout.endswith("over\n") for job in finished), finished


def test_a_newcomer_causes_an_update_and_comes_along(tmp_path: Path) -> None:
    """The running world hears of it, meets anew, and the newcomer gets the last rank."""
    with served(RangeRoster(2, 3, 0.5)) as server, ExitStack() as stack:
        jobs = trained(stack, server, tmp_path, 2)
        jobs.append(begin(stack, joining(server.address), "adds_up_elastically", str(tmp_path)))
        await_world(tmp_path, 3)

        assert 2 == rank_of(tmp_path, 3, jobs[2])
        (tmp_path / "stop").touch()
        finished = [job.wait() for job in jobs]

    assert all(job.code == 0 and "Error" not in job.stdout for job in finished), finished


def test_a_spare_worker_takes_a_lost_ones_place(tmp_path: Path) -> None:
    """A worker over the largest number waits without an update; it comes along when one is lost."""
    with served(RangeRoster(2, 2, 0.0)) as server, ExitStack() as stack:
        jobs = trained(stack, server, tmp_path, 2)
        spare = begin(stack, joining(server.address), "adds_up_elastically", str(tmp_path))
        wait_until(lambda: len(server.workers()) == 3)
        jobs[0].process.kill()
        wait_until(lambda: list(tmp_path.glob(f"2.*.{spare.process.pid}")), DEADLINE_S)

        assert 1 == rank_of(tmp_path, 2, spare)
        (tmp_path / "stop").touch()
        finished = [jobs[1].wait(), spare.wait()]

    assert all(job.code == 0 for job in finished), finished


def test_a_spare_worker_is_dismissed_when_the_job_is_done(tmp_path: Path) -> None:
    """A spare worker ends quietly, and so does one that comes afterwards."""
    with served(RangeRoster(1, 1, 0.0)) as server, ExitStack() as stack:
        (job,) = trained(stack, server, tmp_path, 1)
        spare = begin(stack, joining(server.address), "adds_up_elastically", str(tmp_path))
        wait_until(lambda: len(server.workers()) == 2)
        (tmp_path / "stop").touch()
        finished = [job.wait(), spare.wait()]
        (late,) = run_all_forked([forked("adds_up_elastically", str(tmp_path))], [joining(server.address)])

    for dismissed in (finished[1], late):
        assert 0 == dismissed.code, dismissed.text
        assert "dismissed: the job has ended: the work of rank 0" in dismissed.stdout, dismissed.text


def test_a_dismissed_worker_ends_quietly_and_the_others_go_on(tmp_path: Path) -> None:
    """The launcher takes it out, with an update; no worker counts as lost."""
    with served(RangeRoster(1, 2, 60.0)) as server, ExitStack() as stack:
        jobs = sorted(trained(stack, server, tmp_path, 2), key=lambda job: rank_of(tmp_path, 2, job))
        server.dismiss(1, "its host is needed elsewhere")
        server.announce([])
        await_world(tmp_path, 1)
        gone = jobs[1].wait()

        assert (0, ()) == (gone.code, server.losses())
        assert "dismissed: its host is needed elsewhere" in gone.stdout, gone.text
        (tmp_path / "stop").touch()
        assert 0 == jobs[0].wait().code


def test_a_worker_that_does_not_ask_again_is_left_behind() -> None:
    """After the grace the others meet without it; when it asks at last, it hears so."""
    with served(RangeRoster(1, 2, DEADLINE_S), patience=Patience(DEADLINE_S, grace_s=0.5)) as server:
        first, second = BareWorker(server.address), BareWorker(server.address)
        first.say("listening", number=first.hear("place")["number"], address="tcp://127.0.0.1:9")
        second.hear("address")
        first.say("next")
        place = first.hear("place")
        second.say("next")
        message = second.hear("failed")

        assert (1, 0, 1) == (place["number"], place["rank"], place["size"])
        assert "expelled: it did not ask for the next meeting within 0 s" in message["text"]
        first.die()
        second.die()


def test_a_rank_0_that_does_not_listen_is_left_behind() -> None:
    """A stopped process holds no worker up for longer than the grace."""
    with served(RangeRoster(1, 2, 0.5), patience=Patience(DEADLINE_S, grace_s=0.5)) as server:
        first, second = BareWorker(server.address), BareWorker(server.address)
        first.hear("place")
        second.hear("again")
        place = second.hear("place")

        assert (0, 1) == (place["rank"], place["size"])
        assert "as rank 0 it did not listen" in first.hear("failed")["text"]
        first.die()
        second.die()


@pytest.mark.parametrize("grace_s", [0.5, 60.0])
def test_who_has_waited_for_the_whole_limit_waits_no_longer_for_the_others(grace_s: float) -> None:
    """A worker whose collective has timed out shortens the grace, and never lengthens it."""
    with served(RangeRoster(1, 2, DEADLINE_S), patience=Patience(DEADLINE_S, grace_s=grace_s)) as server:
        first, second = BareWorker(server.address), BareWorker(server.address)
        first.say("listening", number=first.hear("place")["number"], address="tcp://127.0.0.1:9")
        second.hear("address")
        first.say("next", patience_s=1.0)
        place = first.hear("place")
        second.say("next", patience_s="garbage")
        message = second.hear("failed")

        assert (1, 0, 1) == (place["number"], place["rank"], place["size"])
        limit_s = min(grace_s, LEAST_PATIENCE_S)
        assert f"expelled: it did not ask for the next meeting within {limit_s:.0f} s" in message["text"]
        first.die()
        second.die()


@pytest.mark.parametrize(
    ("end", "text"),
    [
        ("os._exit(0)", "its connection ended"),
        ("os._exit(3)", "its connection ended"),
        ("raise ValueError('x')", "it exited with code 1"),
        ("sys.exit(3)", "it exited with code 3"),
        ("raise SystemExit('a message')", "it exited with code 1"),
        ("SESSION.shutdown(); sys.exit(259)", "it exited with code 3"),
        ("os.kill(os.getpid(), 9)", "its connection ended"),
    ],
)
def test_a_death_without_a_word_is_a_loss(end: str, text: str) -> None:
    """os._exit(0) counts as a loss, whatever its code; so does an exit with another code than 0, which is reported."""
    code = f"import os, sys; from ringtune.session.session import SESSION; SESSION.init(); {end}"
    with served(FixedRoster(1)) as server:
        run_job([sys.executable, "-c", code], joining(server.address))
        wait_until(lambda: not server.workers())

        assert (False, 1) == (server.is_ending(), len(server.losses()))
        assert "rank 0" in server.losses()[0]
        assert text in server.losses()[0]


def test_a_forked_child_does_not_hide_the_death_of_its_worker(tmp_path: Path) -> None:
    """The loss is seen while the child, such as a data loader's, lives on."""
    code = (
        "import os, sys, time; from ringtune.session.session import SESSION; SESSION.init()\n"
        "if os.fork(): os._exit(0)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.02)"
    )
    stop = tmp_path / "stop"
    with served(FixedRoster(1)) as server, started([sys.executable, "-c", code, str(stop)], joining(server.address)):
        wait_until(server.losses, DEADLINE_S)

        assert "rank 0" in server.losses()[0]
        stop.touch()


def test_the_end_of_the_server_does_not_disturb_training(tmp_path: Path) -> None:
    """The world goes on; the next meeting waits for a server, and finds one that is started anew on its port."""
    port = free_port()
    with ExitStack() as stack:
        with served(RangeRoster(2, 2, 0.0), port=port) as server:
            jobs = trained(stack, server, tmp_path, 2)
            order = [rank_of(tmp_path, 2, job) for job in jobs]
        for path in world_files(tmp_path, 2):
            path.unlink()
        with served(RangeRoster(1, 2, 5.0), port=port) as server:
            jobs[order.index(0)].process.kill()
            await_world(tmp_path, 1)
            survivor = jobs[order.index(1)]

            assert 0 == rank_of(tmp_path, 1, survivor)
            (tmp_path / "stop").touch()
            assert 0 == survivor.wait().code


def test_a_server_that_does_not_come_back_is_named() -> None:
    """A worker whose server ends while it waits gets an error that names the server."""
    with ExitStack() as stack:
        with served(FixedRoster(2)) as server:
            worker = begin(stack, joining(server.address, RINGTUNE_TIMEOUT_S="2"), "where")
            wait_until(lambda: len(server.workers()) == 1)
        finished = worker.wait()

    target = Address.parse(server.address)
    assert 1 == finished.code
    assert f"could not meet the rendezvous server at 127.0.0.1 port {target.port}" in finished.stderr, finished.text
