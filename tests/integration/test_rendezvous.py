# SPDX-License-Identifier: Apache-2.0
"""Ranks that meet, on one host and on several, however they learn of each other; strangers must not disturb them."""

import json
import os
import re
import resource
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from ringtune.meeting.rendezvous.address import Address, connect
from ringtune.meeting.rendezvous.channel import Channel, ChannelError, Deadline
from ringtune.meeting.rendezvous.proof import PROTOCOL_VERSION, new_nonce
from tests.integration.forked_ranks import ForkedProcess
from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import (
    PROGRAMS,
    JobOf,
    forked,
    launched,
    program,
    run_job,
    started,
    started_by_fork,
    torchrun,
)
from tests.integration.ports import free_port
from tests.integration.strangers import GARBAGE
from tests.integration.worlds import KEY, check_places, explicit, on_hosts, places, run_all, run_all_forked, running

LATE_S = 1.0


def unix(tmp_path: Path) -> str:
    """Return an abstract socket of this test alone."""
    return f"unix:@ringtune-test-{tmp_path.parent.name}-{tmp_path.name}"


def hello(**changes: object) -> dict[str, object]:
    """Return a hello as rank 1 says it."""
    known = {"protocol": PROTOCOL_VERSION, "purpose": "meeting", "generation": 0, "rank": 1, "nonce": new_nonce()}
    return {"type": "hello", **known, **changes}


def connected(address: str, job: JobOf[ForkedProcess]) -> socket.socket:
    """Return a connection to rank 0, as soon as it listens."""
    target = Address.parse(address)
    if target.scheme == "unix":
        target = Address("unix", f"{target.host}.0")
    while True:
        assert job.process.poll() is None
        try:
            return connect(target, Deadline.after(60))
        except OSError:
            continue


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An address of either kind, on this host."""
    return unix(tmp_path) if request.param == "unix" else f"tcp://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("transport", ["auto", "shm", "tcp"])
def test_ranks_of_one_host_meet_and_add_up(address: str, transport: str) -> None:
    """The ranks meet at any rendezvous; `tcp` alone keeps them apart."""
    environs = [explicit(rank, 3, address, RINGTUNE_TRANSPORT=transport) for rank in range(3)]

    found = places(run_all_forked([forked("where")] * 3, environs))

    check_places(found, (0, 1, 2) if transport == "tcp" else (0, 0, 0), "tcp" if transport == "tcp" else "shm")


def test_ranks_meet_again_and_again(address: str) -> None:
    """Every init meets anew, over the same address."""
    environs = [explicit(rank, 2, address) for rank in range(2)]

    found = places(run_all_forked([forked("where", "10")] * 2, environs))

    check_places(found, (0, 0), "shm")


def test_two_jobs_at_once_do_not_meet() -> None:
    """Jobs of one host share no meeting place."""
    command = launched(2, "where", "5")
    with started(command) as first, started(command) as second:
        finished = [first.wait(), second.wait()]

    for job in finished:
        check_places(places([job]), (0, 0), "shm")


@needs_hosts
@pytest.mark.parametrize(("count", "ranks_per_host"), [(2, 1), (2, 2), (3, 1)])
def test_ranks_of_several_hosts_meet_over_tcp(count: int, ranks_per_host: int) -> None:
    """Hosts, local ranks and sizes are computed; process sets span hosts."""
    with hosts(count) as made:
        size = count * ranks_per_host
        address = f"tcp://{made[0].address}:{free_port()}"
        environs = [explicit(rank, size, address, RINGTUNE_TRANSPORT="auto") for rank in range(size)]

        found = places(run_all(on_hosts(made, ranks_per_host, "2"), environs))

    check_places(found, [rank // ranks_per_host for rank in range(size)], "tcp")


@needs_hosts
def test_hosts_may_be_interleaved() -> None:
    """Local ranks follow from the ranks' hosts, not from the order of the ranks."""
    with hosts(2) as made:
        address = f"tcp://{made[0].address}:{free_port()}"
        commands = [made[rank % 2].command(*program("where")) for rank in range(4)]

        found = places(run_all(commands, [explicit(rank, 4, address) for rank in range(4)]))

    check_places(found, (0, 1, 0, 1), "tcp")


@needs_hosts
def test_shared_memory_between_hosts_is_an_error_on_all() -> None:
    """The error has the number of hosts and the transport to use."""
    with hosts(2) as made:
        address = f"tcp://{made[0].address}:{free_port()}"
        environs = [explicit(rank, 2, address, RINGTUNE_TRANSPORT="shm") for rank in range(2)]

        finished = run_all(on_hosts(made, 1), environs)

    for rank in finished:
        assert 1 == rank.code
        assert "RINGTUNE_TRANSPORT=shm is not possible: the ranks run on 2 hosts" in rank.stderr, rank.text


LISTENERS = """
import json, pathlib, socket, sys, time
def listeners():
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    addresses = [fields[1].split(":") for fields in map(str.split, lines) if fields[3] == "0A"]
    return [(socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)) for host, port in addresses]
while int(sys.argv[1]) not in [port for _, port in listeners()]:
    time.sleep(0.02)
print(json.dumps(listeners()))
"""


@needs_hosts
def test_only_the_chosen_interface_is_bound() -> None:
    """While rank 0 waits, no socket listens on loopback or on all interfaces."""
    with hosts(1) as (host,):
        port = free_port()
        address = f"tcp://{host.address}:{port}"
        with running([host.command(*program("where"))], [explicit(0, 2, address)]) as (first,):
            seen = run_job(host.command(sys.executable, "-c", LISTENERS, str(port)))
            first.kill()

    assert [[host.address, port]] == json.loads(seen.stdout), seen.text


def slurm(rank: int, size: int, nodes: str) -> dict[str, str]:
    """Return srun's variables for a task, and the user's key."""
    return {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_ID": "1",
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(size),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.1",
        "RINGTUNE_JOB_KEY": KEY,
        "RINGTUNE_TIMEOUT_S": "60",
    }


def test_tasks_of_srun_meet_on_one_node() -> None:
    """Tasks meet by srun's variables and the user's key alone."""
    found = places(run_all_forked([forked("where", "2")] * 2, [slurm(rank, 2, "node7") for rank in range(2)]))

    check_places(found, (0, 0), "shm")


@needs_hosts
def test_tasks_of_srun_meet_on_the_first_of_several_nodes() -> None:
    """Over TCP, twice in a row over the same port."""
    with hosts(2) as made:
        nodes = "10.77.0.[1-2]"
        environs = [slurm(rank, 4, nodes) for rank in range(4)]

        found = places(run_all(on_hosts(made, 2, "2"), environs))

    check_places(found, (0, 0, 1, 1), "tcp")


@needs_hosts
def test_torchrun_starts_ranks_on_two_hosts() -> None:
    """Through the store of its agent; rank 0 chooses an address that the other host reaches."""
    command = str(Path(sys.executable).parent / "torchrun")
    with hosts(2) as made:
        endpoint = f"{made[0].address}:{free_port()}"
        options = ["--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}"]
        commands = [
            host.command(
                command,
                *options,
                f"--rdzv-conf=is_host={host is made[0]}",  # names of hosts, by which it would find out, are not set up
                f"--local-addr={host.address}",
                str(PROGRAMS / "where.py"),
                "2",
            )
            for host in made
        ]

        found = places(run_all(commands, [{}, {}]))

    assert [0, 1, 2, 3] == [place["rank"] for place in found]
    hosts_of_ranks = [place["cross"][0] for place in found]
    check_places(found, hosts_of_ranks, "tcp")
    assert [0, 0, 1, 1] == sorted(hosts_of_ranks)


def test_a_restarted_job_meets_anew_under_torchrun(tmp_path: Path) -> None:
    """Entries of the failed attempt in the agent's store do not confuse the next."""
    command = torchrun(tmp_path / "python", "--max-restarts=1", str(PROGRAMS / "fails_once.py"), str(tmp_path))

    finished = run_job(command)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("restart 1: sum 2.0"), finished.text


def test_strangers_do_not_disturb_the_meeting(address: str) -> None:
    """Silent, talkative and broken connections are dropped, and the ranks meet."""
    with started_by_fork(forked("where"), explicit(0, 2, address)) as first:
        strangers = []
        for number in range(200):
            strangers.append(connected(address, first))
            strangers[-1].send(GARBAGE[number % len(GARBAGE)])
        (second,) = run_all_forked([forked("where")], [explicit(1, 2, address)])
        finished = first.wait()
    for stranger in strangers:
        stranger.close()

    check_places(places([finished, second]), (0, 0), "shm")


@pytest.mark.parametrize(("count", "pairs"), [(1_000, 1), pytest.param(10_000, 15, marks=pytest.mark.long)])
def test_a_flood_of_garbage_does_not_keep_ranks_apart(
    address: str, count: int, pairs: int, record_property: Callable[[str, object], None]
) -> None:
    """The job starts; the delay against a start without is recorded, as measured on this machine."""
    flood = program("flood", address, str(count))
    ratios, made = [], []
    for _ in range(pairs):
        calm_s, _ = start_with_a_late_rank(address, None)
        flooded_s, output = start_with_a_late_rank(address, flood)
        ratios.append(flooded_s / calm_s)
        made.append(int(output.split()[0]))
    record_property("connections", sorted(made))
    record_property("start_to_calm_median", round(median(ratios), 3))
    record_property("start_to_calm", [round(ratio, 3) for ratio in sorted(ratios)])


def start_with_a_late_rank(address: str, flood: Sequence[str] | None) -> tuple[float, str]:
    """Return the duration of a job whose rank 1 came late, so that a flood had its time, and the flood's output."""
    start_s = time.monotonic()
    with ExitStack() as stack:
        first = stack.enter_context(started_by_fork(forked("where"), explicit(0, 2, address)))
        flooding = stack.enter_context(started(flood, {})) if flood else None
        time.sleep(LATE_S)
        second = stack.enter_context(started_by_fork(forked("where"), explicit(1, 2, address)))
        found = places([first.wait(), second.wait()])
        output = flooding.wait().stdout if flooding else ""
    check_places(found, (0, 0), "shm")
    return max(place["joined_at_s"] for place in found) - start_s, output


def test_an_impostor_who_does_not_prove_the_key_is_dropped(address: str) -> None:
    """A process that claims to be rank 1 and ignores that rank 0's proof is not its own is not let in."""
    with started_by_fork(forked("where"), explicit(0, 2, address)) as first:
        impostor = Channel(connected(address, first))
        impostor.send(hello())
        challenge = impostor.receive(Deadline.after(60))
        impostor.send({"type": "join", "proof": "0" * 64, "world_size": 2, "given": {}})
        with pytest.raises(ChannelError):
            impostor.receive(Deadline.after(60))
        (second,) = run_all_forked([forked("where")], [explicit(1, 2, address)])
        finished = first.wait()
    impostor.close()

    assert "challenge" == challenge["type"]
    check_places(places([finished, second]), (0, 0), "shm")


def test_another_version_of_the_rendezvous_is_told_so(address: str) -> None:
    """A rank of another version of ringtune does not wait in vain."""
    with started_by_fork(forked("where"), explicit(0, 2, address)) as first:
        other = Channel(connected(address, first))
        other.send(hello(protocol=1))

        answer = other.receive(Deadline.after(60))

        other.close()
        first.kill()
    assert {"type": "elsewhere", "protocol": PROTOCOL_VERSION, "generation": 0} == answer


def test_a_port_in_use_is_an_error_that_names_its_holder() -> None:
    """Address, port, process and command, on rank 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        finished = run_job(program("where"), explicit(0, 2, f"tcp://127.0.0.1:{port}"))

    assert 1 == finished.code
    assert f"cannot listen on tcp://127.0.0.1:{port}: the port is in use by pid {os.getpid()}" in finished.stderr


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_few_descriptors_are_a_clear_error_or_enough(transport: str) -> None:
    """Eight ranks with 64 descriptors either start or name the limit to raise; none hangs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    assert hard > 64

    finished = run_job([*limited, *launched(8, "where")], {"RINGTUNE_TRANSPORT": transport, "RINGTUNE_TIMEOUT_S": "60"})

    if finished.code == 0:
        assert 8 == len(places([finished])), finished.text
    else:
        assert "ulimit -n" in finished.stderr, finished.text
        assert "Segmentation" not in finished.stderr


@pytest.mark.parametrize(
    ("transport", "times"),
    [("tcp", 20), *(pytest.param(transport, 1000, marks=pytest.mark.long) for transport in ("shm", "tcp"))],
)
@pytest.mark.timeout(900)
def test_init_and_shutdown_repeat(transport: str, times: int) -> None:
    """Descriptors and threads do not add up, with sockets as little as with shared memory."""
    finished = run_job(launched(3, "rejoin", str(times)), {"RINGTUNE_TRANSPORT": transport}, deadline_s=850)

    assert 0 == finished.code, finished.text
    assert 3 == len(re.findall(rf"{times} times", finished.stdout)), finished.text
