# SPDX-License-Identifier: Apache-2.0
"""Workers that get their ranks on arrival: meetings, further meetings, deaths at every point, and strangers."""

import json
import socket
import sys
import time
from contextlib import ExitStack
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.channel import ChannelError
from ringtune.meeting.rendezvous.roster import FixedRoster
from ringtune.meeting.rendezvous.server import Patience
from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import forked, program, ringtune, run_job, started, started_by_fork
from tests.integration.ports import free_port
from tests.integration.rendezvous_servers import BareWorker, joining, served
from tests.integration.strangers import GARBAGE
from tests.integration.worlds import KEY, check_places, places, run_all, run_all_forked
from tests.waiting import wait_until

PROMPT_S = 60.0  # far below the limits at which something would be given up


def test_workers_get_ranks_and_meet_again_and_again() -> None:
    """Each init is a meeting of its own; the end of all is no loss."""
    with served(FixedRoster(3)) as server:
        found = places(run_all_forked([forked("where", "5")] * 3, [joining(server.address)] * 3))
        wait_until(lambda: not server.workers())

        assert (True, ()) == (server.is_ending(), server.losses())
    check_places(found, (0, 0, 0), "shm")


def test_a_world_of_one_needs_nobody() -> None:
    """A single worker gets rank 0."""
    with served(FixedRoster(1)) as server:
        found = places(run_all_forked([forked("where", "2")], [joining(server.address)]))

    check_places(found, (0,), "shm")


@needs_hosts
def test_workers_are_ranked_by_host() -> None:
    """Workers of two hosts that arrive in any order are grouped; rank 0's interface is found."""
    with hosts(2) as made:
        address = f"join://{made[1].address}:{free_port()}"
        server = made[1].command(*ringtune("rendezvous", "-np", "4", "--listen", address.removeprefix("join://")))
        commands = [made[number % 2].command(*program("where", "2")) for number in range(4)]
        with started(server, {"RINGTUNE_JOB_KEY": KEY}) as serving:
            found = places(run_all(commands, [joining(address)] * 4))
            finished = serving.wait()

    check_places(found, (0, 0, 1, 1), "tcp")
    assert 0 == finished.code, finished.text


def test_a_late_server_is_waited_for() -> None:
    """A worker that comes before the server tries again."""
    port = free_port()
    with started_by_fork(forked("where"), joining(f"join://127.0.0.1:{port}")) as worker:
        time.sleep(0.5)
        with served(FixedRoster(1), port=port):
            finished = worker.wait()

    assert 0 == finished.code, finished.text


def test_the_missing_are_counted_at_the_limit() -> None:
    """Every worker that waits hears how many are missing, and which are there."""
    with served(FixedRoster(3), patience=Patience(meeting_s=2.0)) as server:
        finished = run_all_forked(
            [forked("where")] * 2, [joining(server.address, RINGTUNE_WORKER_ID="pod-7"), joining(server.address)]
        )

    for worker in finished:
        assert 1 == worker.code
        assert "RendezvousError: there were not enough workers within 2 s: 1 of 3 workers is missing" in worker.stderr
        assert "present: " in worker.stderr
        assert "'pod-7', host " in worker.stderr


def test_a_worker_too_many_is_refused() -> None:
    """The job goes on; the refused one hears which are there."""
    with served(FixedRoster(1)) as server, ExitStack() as stack:
        there = BareWorker(server.address)
        there.hear("place")
        (refused,) = run_all_forked([forked("where")], [joining(server.address)])
        stack.callback(there.die)

    assert 1 == refused.code
    assert "the job has its 1 workers already (host bare, pid 1)" in refused.stderr, refused.text


def test_strangers_do_not_disturb_the_meeting() -> None:
    """Silent and broken connections and other keys are dropped, and the workers meet."""
    with served(FixedRoster(2)) as server, ExitStack() as stack:
        target = Address.parse(server.address)
        for number in range(200):
            stranger = stack.enter_context(socket.create_connection((target.host, target.port)))
            stranger.send(GARBAGE[number % len(GARBAGE)])
        with pytest.raises(ConfigError, match="different job keys"):
            BareWorker(server.address, key="cd" * 32)

        found = places(run_all_forked([forked("where")] * 2, [joining(server.address)] * 2))

    check_places(found, (0, 0), "shm")


def test_a_worker_with_another_key_is_told_so() -> None:
    """A wrong key is an error at once, not at the limit."""
    with served(FixedRoster(2)) as server:
        (finished,) = run_all_forked([forked("where")], [joining(server.address, RINGTUNE_JOB_KEY="cd" * 32)])

    assert 1 == finished.code
    assert "hold different job keys" in finished.stderr, finished.text


def test_unknown_words_are_passed_over() -> None:
    """Words that this version does not know are passed over."""
    with served(FixedRoster(1)) as server, ExitStack() as stack:
        worker = BareWorker(server.address)
        stack.callback(worker.die)
        worker.say("listening", number="x", address=7)
        worker.say("nonsense")
        place = worker.hear("place")

        assert (0, 1) == (place["rank"], place["size"])


NESTED = json.loads("[" * 800 + "]" * 800)
NONSENSE: tuple[dict[str, Any], ...] = (
    {"site": "[" * 20_000},
    {"site": json.dumps(["h", "n", ["127.0.0.1/8"] * 1000])},
    {"site": json.dumps(["h", "n", ["everywhere"]])},
    {"site": json.dumps(["h" * 100_000, "n", []])},
    {"site": json.dumps(["h", NESTED, []])},
    {"site": NESTED},
    {"pid": 1.5},
    {"pid": 2**62},
    {"pid": -1},
    {"meeting": 2**62},
    {"meeting": True},
    {"rank": "1"},
    {"first_meeting": NESTED},
    {"host_name": NESTED},
    {"worker_id": "w" * 100_000},
    {"worker_id": None},
)
"""Descriptions of itself that a worker with the key may send: its memory is damaged, or its version is another."""


def test_a_worker_that_talks_nonsense_ends_alone() -> None:
    """The others meet, whatever a worker with the key says, and their meetings have numbers as before."""
    with served(FixedRoster(2)) as server, ExitStack() as stack:
        for described in NONSENSE:
            with pytest.raises(ChannelError):
                BareWorker(server.address, **described).hear("place")
        first, second = BareWorker(server.address), BareWorker(server.address)
        stack.callback(second.die)
        number = first.hear("place")["number"]
        first.say("next", patience_s=[NESTED])
        first.say("listening", number=number, address=[NESTED])
        with pytest.raises(ChannelError):
            first.hear("address")
        third = BareWorker(server.address, host_name="a\nringtune rendezvous: forged\x1b[2J")
        stack.callback(third.die)

        assert (0, number + 1) == (second.hear("again")["number"], second.hear("place")["number"])
        assert ["bare", "a\\nringtune rendezvous: forged\\x1b[2J"] == [one.host_name for one in server.workers()]


def test_who_inherits_a_workers_variables_joins_nothing() -> None:
    """Children have no key; those with a key from before are refused by name or by number."""
    with served(FixedRoster(2)) as server:
        environs = [joining(server.address, RINGTUNE_WORKER_ID=f"w{number}") for number in range(2)]
        finished = run_all([program("inherits_place")] * 2, environs)

    for worker in finished:
        assert 0 == worker.code, worker.text
        assert 5 == worker.stdout.count(" refused after "), worker.text
        assert " joined as rank" not in worker.stdout, worker.text
        assert "of 2 is back" in worker.stdout, worker.text


def test_a_child_without_the_key_is_told_so() -> None:
    """The key is taken out of the environment at init, in a job whose workers have no names."""
    code = (
        "import subprocess, sys; from ringtune.session.session import SESSION; SESSION.init()\n"
        "subprocess.run([sys.executable, '-c', 'from ringtune.session.session import SESSION; SESSION.init()'])"
    )
    with served(FixedRoster(1)) as server:
        finished = run_job([sys.executable, "-c", code], joining(server.address))

    assert "from a worker of the job, but not the job key, which a worker's children do not get" in finished.stderr


def test_a_pool_of_processes_serves_one_job_after_another() -> None:
    """A process that has done a job's work joins the next job, of another server, as a newcomer."""
    code = (
        "import os, sys; from tests.integration.plain_rank import allreduce, join\n"
        "from ringtune.session.session import SESSION\n"
        "for address, key in zip(sys.argv[1:], ('ab', 'cd')):\n"
        "    os.environ.update(RINGTUNE_RENDEZVOUS=address, RINGTUNE_JOB_KEY=key * 32)\n"
        "    world = join(); allreduce(world, 'sum', [float(world.rank)])\n"
        "    print('size', world.size); SESSION.shutdown()"
    )
    with served(FixedRoster(2)) as first, served(FixedRoster(1), key="cd" * 32) as second, ExitStack() as stack:
        fresh = stack.enter_context(started_by_fork(forked("where"), joining(first.address)))
        pooled = run_job([sys.executable, "-c", code, first.address, second.address], {"RINGTUNE_TIMEOUT_S": "300"})
        fresh.wait()
        wait_until(lambda: not first.workers() and not second.workers())

        assert (True, ()) == (first.is_ending(), first.losses())
    assert "size 2\nsize 1\n" == pooled.stdout, pooled.text


def test_a_hopeless_wait_ends_at_once() -> None:
    """A worker that asks for a meeting when another one has finished hears which."""
    with served(FixedRoster(2)) as server:
        once, twice = run_all_forked([forked("where"), forked("where", "2")], [joining(server.address)] * 2)

    assert (0, 1) == (once.code, twice.code), twice.text
    assert "there can be no further meeting, for the work of rank" in twice.stderr, twice.text
    assert twice.seconds < PROMPT_S
