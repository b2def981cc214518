# SPDX-License-Identifier: Apache-2.0
"""`ringtune run --mpi` and `ringtune.run(use_mpi=True)` start ranks by the environment's mpirun."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import Finished, run_job
from tests.mpi.launching import BIN, IS_OPEN_MPI, NO_SHARED_MEMORY, rank_command, remote_shell

PATH = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
# One write a line: a launcher may put another rank's text between two.
SHOW = """
import json, os, sys
import ringtune.arrays as rt
rt.init()
sys.stdout.write(json.dumps([rt.rank(), *map(os.environ.get, sys.argv[1:])]) + "\\n")
"""


def launched(*options: str, command: Sequence[str]) -> Finished:
    """Run `ringtune run --mpi` to its end; no process of the job may be left."""
    return run_job([sys.executable, "-m", "ringtune", "run", "--mpi", *options, *command], PATH)


def test_a_job_starts_by_mpi() -> None:
    """Places, shared memory and exit code are those of any job."""
    finished = launched("-np", "3", command=rank_command("places"))

    assert 0 == finished.code, finished.text
    assert [f"rank {rank} of 3, local {rank} of 3, by shm" for rank in range(3)] == sorted(finished.stdout.splitlines())


def test_variables_and_options_reach_the_ranks_and_the_job_key_does_not_stay() -> None:
    """`--env` and options of the engine; after init no rank has a key to leak."""
    names = ("TOKEN", "HOROVOD_CYCLE_TIME", "RINGTUNE_JOB_KEY")
    options = ("-np", "2", "-H", "localhost:2", "--no-prefix-output", "--env", "TOKEN=a b", "--cycle-time-ms", "2")

    finished = launched(*options, command=[sys.executable, "-c", SHOW, *names])

    assert 0 == finished.code, finished.text
    assert [[rank, "a b", "2", None] for rank in range(2)] == sorted(map(json.loads, finished.stdout.splitlines()))


def test_the_exit_code_is_the_failing_ranks() -> None:
    """Mpirun ends the others and returns it."""
    assert 7 == launched("-np", "2", command=["sh", "-c", "exit 7"]).code


def test_what_ranks_write_goes_into_files(tmp_path: Path) -> None:
    """Mpirun chooses the names."""
    finished = launched("-np", "2", "--output-filename", str(tmp_path / "out"), command=rank_command("places"))

    assert 0 == finished.code, finished.text
    files = [file.read_text(encoding="utf-8") for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {f"rank {rank} of 2, local {rank} of 2, by shm" for rank in range(2)} <= set("".join(files).splitlines())


def test_a_function_runs_by_mpi(tmp_path: Path) -> None:
    """Its results come back in the order of the ranks."""
    program = tmp_path / "program.py"
    program.write_text(
        "import ringtune\n"
        "def function(base):\n"
        "    import ringtune.arrays as rt\n"
        "    rt.init()\n"
        "    return base + rt.rank()\n"
        "print(ringtune.run(function, (10,), np=2, use_mpi=True))\n",
        encoding="utf-8",
    )

    finished = run_job([sys.executable, str(program)], PATH)

    assert (0, "[10, 11]") == (finished.code, finished.stdout.strip()), finished.text


@needs_hosts
@pytest.mark.parametrize("first", ["address", "localhost"])
def test_hosts_are_reached_by_mpis_own_shell(tmp_path: Path, first: str) -> None:
    """Ranks fill the hosts in order."""
    with hosts(2) as made:
        shell = remote_shell(made, tmp_path)
        here = made[0].address if first == "address" else first
        named = f"{here}:2,{made[1].address}:2"
        agent = f"--prtemca plm_ssh_agent {shell}" if IS_OPEN_MPI else f"-launcher ssh -launcher-exec {shell}"
        options = ["-np", "4", "-H", named, "--no-prefix-output", "--mpi-args", agent, *rank_command("places")]
        in_network = ["nsenter", "--target", str(made[0].init_pid), "--net", "--"]
        command = [*in_network, sys.executable, "-m", "ringtune", "run", "--mpi", *options]
        finished = run_job(command, {**PATH, **NO_SHARED_MEMORY})

    assert 0 == finished.code, finished.text
    assert [f"rank {rank} of 4, local {rank % 2} of 2, by tcp" for rank in range(4)] == sorted(
        finished.stdout.splitlines()
    ), finished.text


@pytest.mark.parametrize("option", ["--rsh=ssh", "--gloo"])
def test_options_of_the_other_launcher_start_nothing(option: str) -> None:
    """Code 2 and a sentence."""
    finished = launched("-np", "2", option, command=["true"])

    assert 2 == finished.code, finished.text
    assert 1 == len(finished.stderr.strip().splitlines())
