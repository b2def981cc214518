# SPDX-License-Identifier: Apache-2.0
"""The place that srun's variables tell."""

import os
import threading
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import find_place, munge, slurm_nodes
from ringtune.meeting.bootstrap.slurm import FIRST_PORT, PORTS
from ringtune.meeting.bootstrap.slurm_nodes import expand_nodes, first_node_address
from ringtune.meeting.rendezvous.place import Place

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NODELIST": "192.0.2.[07-08]",
    "RINGTUNE_JOB_KEY": "ab" * 32,
}


def without_key(**changes: str) -> dict[str, str]:
    """Return the variables of a step whose user has given no key."""
    return {**{name: value for name, value in STEP.items() if name != "RINGTUNE_JOB_KEY"}, **changes}


def test_tasks_on_several_nodes_meet_on_the_first() -> None:
    """The port follows from job and step, outside of the kernel's own range."""
    place = find_place({**STEP, "SLURM_STEP_NODELIST": "192.0.2.[7-8]"}, 0, 1.0)

    assert (3, 4, "srun", b"\xab" * 32) == (place.rank, place.world_size, place.source, place.job_key)
    assert place.address is not None
    assert ("tcp", "192.0.2.7") == (place.address.scheme, place.address.host)
    assert FIRST_PORT <= place.address.port < FIRST_PORT + PORTS


def test_tasks_that_the_user_has_placed_meet_where_the_first_is(tmp_path: Path) -> None:
    """Slurm's list is sorted; the user's file is not."""
    file = tmp_path / "hosts"
    file.write_text("192.0.2.8\n192.0.2.7\n", encoding="utf-8")
    environ = {**STEP, "SLURM_STEP_NODELIST": "192.0.2.[7-8]", "SLURM_DISTRIBUTION": "arbitrary"}

    place = find_place({**environ, "SLURM_HOSTFILE": str(file)}, 0, 1.0)

    assert "192.0.2.8" == place.require_address().host


@pytest.mark.parametrize("text", [None, "\n"])
def test_placed_tasks_without_their_file_say_so(tmp_path: Path, text: str | None) -> None:
    """No rank waits on a host on which task 0 is not."""
    file = tmp_path / "hosts"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=f"SLURM_HOSTFILE='{file}'"):
        find_place({**STEP, "SLURM_DISTRIBUTION": "arbitrary", "SLURM_HOSTFILE": str(file)}, 0, 1.0)


def test_tasks_on_one_node_need_no_port() -> None:
    """Tasks on one node meet on an abstract socket, of their job, step and generation alone."""
    one_node = {**STEP, "SLURM_STEP_NODELIST": "gpu07"}
    changes: list[dict[str, str]] = [{}, {"SLURM_JOB_ID": "5"}, {"SLURM_STEP_ID": "5"}]

    names = {str(find_place({**one_node, **change}, 0, 1.0).address) for change in changes}
    names.add(str(find_place(one_node, 1, 1.0).address))

    assert 4 == len(names)
    assert all(name.startswith("unix:@ringtune") for name in names)


def test_tasks_on_one_node_need_no_key() -> None:
    """The kernel tells whose processes they are; all hold one fresh key, and rank 0 listens where they will meet."""
    job = str(threading.get_native_id() * 100_000 + os.getpid())[-9:]
    environ = without_key(SLURM_JOB_ID=job, SLURM_STEP_NODELIST="node1", SLURM_STEP_NUM_TASKS="3")
    places: dict[int, Place] = {}

    def find(rank: int) -> None:
        places[rank] = find_place({**environ, "SLURM_PROCID": str(rank)}, 0, 60.0)

    threads = [threading.Thread(target=find, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 3 == len(places)
    assert 1 == len({(place.job_key, place.address) for place in places.values()})
    assert 32 == len(places[0].job_key)
    assert places[0].listener is not None
    places[0].listener.close()


def test_the_steps_own_number_of_tasks_holds() -> None:
    """A step may be smaller than its job."""
    assert 3 == find_place({**STEP, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3"}, 0, 1.0).world_size


@pytest.mark.parametrize("missing", ["SLURM_STEP_ID", "SLURM_PROCID"])
def test_a_batch_script_trains_alone(missing: str) -> None:
    """Slurm's variables outside of a step describe the job, and do not make this process one task of several."""
    environ = {name: value for name, value in STEP.items() if name != missing}

    assert 1 == find_place(environ, 0, 1.0).world_size


def test_one_task_needs_no_key() -> None:
    """An interactive shell in a step trains alone."""
    assert 1 == find_place({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1.0).world_size


def test_without_munge_the_user_is_told_how_to_make_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret is derived from public facts."""
    monkeypatch.setattr(munge, "LIBRARY", "libmunge-that-is-not-there.so")
    munge.load_library.cache_clear()

    with pytest.raises(ConfigError) as caught:
        find_place(without_key(), 0, 1.0)

    munge.load_library.cache_clear()
    assert "export RINGTUNE_JOB_KEY=$(openssl rand -hex 32)" in str(caught.value)
    assert "libmunge-that-is-not-there.so" in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SLURM_PROCID", "4"),
        ("SLURM_PROCID", "x"),
        ("SLURM_NTASKS", "0"),
        ("SLURM_JOB_ID", "1;2"),
        ("SLURM_STEP_ID", "batch"),
        ("SLURM_STEP_NODELIST", "gpu[1"),
        ("SLURM_STEP_NODELIST", "gpu[-]"),
        ("SLURM_STEP_NODELIST", "a b"),
    ],
)
def test_a_malformed_variable_is_named(variable: str, value: str) -> None:
    """The error has the variable's value and the allowed values."""
    with pytest.raises(ConfigError, match="allowed") as caught:
        find_place({**STEP, variable: value}, 0, 1.0)

    assert f"{variable}={value!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ("login", ["login"]),
        ("a,b", ["a", "b"]),
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
        ("r[1-2]-ib.cluster", ["r1-ib.cluster", "r2-ib.cluster"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
    ],
)
def test_a_list_of_nodes_is_expanded(nodes: str, names: list[str]) -> None:
    """A list is expanded with leading zeros, ranges and suffixes as Slurm writes them."""
    assert names == list(expand_nodes(nodes))


def put_scontrol(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Put a program of that name first on the path, which says a text."""
    program = folder / "scontrol"
    program.write_text(f'#!/bin/sh\necho "{text}"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_node_whose_name_is_no_hosts_is_reached_by_its_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Slurm knows a node's address where the resolver does not know its name."""
    put_scontrol(monkeypatch, tmp_path, "NodeName=$4 Arch=x86_64 NodeAddr=192.0.2.9 NodeHostName=h State=IDLE")

    assert "192.0.2.9" == first_node_address(["no-such-node.invalid", "other"])


@pytest.mark.parametrize("text", ["Node not found", "NodeName=a NodeAddr=no-such-node.invalid"])
def test_a_node_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """The error has the node, and the words of scontrol."""
    put_scontrol(monkeypatch, tmp_path, text)

    with pytest.raises(ConfigError, match=r"node 'no-such-node\.invalid' .* has no address") as caught:
        first_node_address(["no-such-node.invalid", "other"])

    assert text.rpartition("NodeAddr=")[2] in str(caught.value)


def test_a_host_that_has_its_own_name_on_loopback_takes_the_interface_to_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Debian has a host's own name at 127.0.1.1, which no other host reaches."""
    monkeypatch.setattr(slurm_nodes, "route_address", lambda host: f"the way to {host}")

    assert "the way to 192.0.2.8" == first_node_address(["127.0.1.1", "192.0.2.8"])
