# SPDX-License-Identifier: Apache-2.0
"""The place that srun's variables tell."""

import pytest

from ringtune.bootstrap import find_place
from ringtune.bootstrap.slurm import FIRST_PORT, PORTS, expand_nodes
from ringtune.errors import ConfigError

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "RINGTUNE_JOB_KEY": "ab" * 32,
}


def test_tasks_on_several_nodes_meet_on_the_first() -> None:
    """The port follows from job and step, outside of the kernel's own range."""
    place = find_place(STEP, 0, 1.0)

    assert (3, 4, "srun", b"\xab" * 32) == (place.rank, place.world_size, place.source, place.job_key)
    assert place.address is not None
    assert ("tcp", "gpu07") == (place.address.scheme, place.address.host)
    assert FIRST_PORT <= place.address.port < FIRST_PORT + PORTS


def test_tasks_on_one_node_need_no_port() -> None:
    """Tasks on one node meet on an abstract socket, of their job, step and generation alone."""
    one_node = {**STEP, "SLURM_STEP_NODELIST": "gpu07"}
    changes: list[dict[str, str]] = [{}, {"SLURM_JOB_ID": "5"}, {"SLURM_STEP_ID": "5"}]

    names = {str(find_place({**one_node, **change}, 0, 1.0).address) for change in changes}
    names.add(str(find_place(one_node, 1, 1.0).address))

    assert 4 == len(names)
    assert all(name.startswith("unix:@ringtune") for name in names)


def test_the_steps_own_number_of_tasks_holds() -> None:
    """A step may be smaller than its job."""
    assert 3 == find_place({**STEP, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3"}, 0, 1.0).world_size


@pytest.mark.parametrize("missing", ["SLURM_STEP_ID", "SLURM_PROCID"])
def test_a_batch_script_trains_alone(missing: str) -> None:
    """Slurm's variables outside of a step say what the job has, not that this is one task of several."""
    environ = {name: value for name, value in STEP.items() if name != missing}

    assert 1 == find_place(environ, 0, 1.0).world_size


def test_one_task_needs_no_key() -> None:
    """An interactive shell in a step trains alone."""
    assert 1 == find_place({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1.0).world_size


def test_without_a_key_the_user_is_told_how_to_make_one() -> None:
    """Nothing secret is derived from what everybody can see."""
    environ = {name: value for name, value in STEP.items() if name != "RINGTUNE_JOB_KEY"}

    with pytest.raises(ConfigError) as caught:
        find_place(environ, 0, 1.0)

    assert "export RINGTUNE_JOB_KEY=$(openssl rand -hex 32)" in str(caught.value)


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
