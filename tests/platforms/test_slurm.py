# SPDX-License-Identifier: Apache-2.0
"""Jobs under a real Slurm, on two nodes: which ranks meet, by which key, and how a job ends."""

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtune.tuner import read_log
from tests.e2e.documented_commands import Block, blocks_of, file_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.platforms.slurm_cluster import NODES, SlurmCluster, needs_slurm, slurm_cluster
from tests.waiting import wait_until

pytestmark = needs_slurm
PROGRAM = [sys.executable, str(Path(__file__).parent / "programs" / "sums.py")]
TWO_NODES = ["srun", "--nodes=2", "--ntasks-per-node=2"]
PAGE = REPOSITORY / "docs" / "howto" / "slurm.md"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Return a cluster with idle nodes."""
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def expected(nodes: int, *, restart: int = 0) -> list[str]:
    """Return the output of `sums` on two ranks a node."""
    size = 2 * nodes
    return [
        f"rank {rank} of {size}, local {rank % 2} of 2 on {NODES[rank // 2]}: {sum(range(size + 1))}, restart {restart}"
        for rank in range(size)
    ]


def in_changed_files(*commands: str) -> list[str]:
    """Return the program, run by each task after commands in a mount namespace of its own."""
    script = " && ".join((*commands, 'exec "$0" "$@"'))
    return ["unshare", "--mount", "sh", "-c", script, *PROGRAM]


@pytest.mark.parametrize("nodes", [1, 2])
def test_tasks_of_a_step_meet_without_a_key(cluster: SlurmCluster, nodes: int) -> None:
    """Ranks, local ranks and sums are right, twice in a row, without exported variables."""
    finished = cluster.run("srun", f"--nodes={nodes}", "--ntasks-per-node=2", *PROGRAM)

    assert 0 == finished.code, finished.text
    assert expected(nodes) == sorted(finished.stdout.splitlines())


@pytest.mark.parametrize("environ", [{}, {"RINGTUNE_TORCH_BACKEND": "gloo"}])
def test_process_groups_of_torch_meet(cluster: SlurmCluster, environ: dict[str, str]) -> None:
    """Torch's own variables are missing: rank 0 serves its store, on the first node, and tells the others."""
    program = str(Path(__file__).parent / "programs" / "torch_sums.py")
    backend = "gloo" if environ else "ringtune"

    finished = cluster.run(*TWO_NODES, sys.executable, program, backend, environ=environ)

    assert 0 == finished.code, finished.text
    assert [f"rank {rank} of 4 on {NODES[rank // 2]}: 10 by ringtune" for rank in range(4)] == sorted(
        finished.stdout.splitlines()
    )


def test_steps_of_an_interactive_allocation_meet(cluster: SlurmCluster) -> None:
    """`salloc` holds the nodes; each `srun` in its shell is a step of its own, also on fewer nodes."""
    steps = " && ".join((shlex.join(["srun", *PROGRAM]), shlex.join(["srun", "--nodes=1", "--ntasks=2", *PROGRAM])))

    finished = cluster.run("salloc", "--nodes=2", "--ntasks-per-node=2", "sh", "-c", steps)

    assert 0 == finished.code, finished.text
    assert sorted((*expected(2), *expected(1))) == sorted(finished.stdout.splitlines())
    assert "salloc: Relinquishing job allocation" in finished.stderr


def test_a_rank_that_fails_in_an_interactive_allocation_ends_it(cluster: SlurmCluster) -> None:
    """The step's exit code is that of `salloc`, and the nodes are free again."""
    step = ["srun", "--kill-on-bad-exit=1", *PROGRAM, "fail", "2"]

    finished = cluster.run("salloc", "--nodes=2", "--ntasks-per-node=2", *step)
    cluster.wait_until_idle()

    assert 0 != finished.code
    assert "n2: task 2: Exited with exit code 7" in finished.stderr, finished.text


def test_a_key_of_the_users_goes_first(cluster: SlurmCluster) -> None:
    """The key is enough where there is no munge, as in a container."""
    environ = {"RINGTUNE_JOB_KEY": secrets.token_hex(32)}
    finished = cluster.run(*TWO_NODES, *in_changed_files("mount -t tmpfs tmpfs /run"), environ=environ)

    assert 0 == finished.code, finished.text
    assert expected(2) == sorted(finished.stdout.splitlines())


def test_without_key_and_munge_every_task_says_what_to_do(cluster: SlurmCluster) -> None:
    """The error is there at once, with the line to put before srun."""
    finished = cluster.run(*TWO_NODES, *in_changed_files("mount -t tmpfs tmpfs /run"))

    assert 0 != finished.code
    assert 4 == finished.stderr.count("export RINGTUNE_JOB_KEY=$(openssl rand -hex 32)` before srun"), finished.text
    assert 'Failed to access "/run/munge' in finished.stderr, finished.text


def test_nodes_whose_names_do_not_resolve_are_reached_by_their_address(cluster: SlurmCluster) -> None:
    """The name of a node need not be a host's: Slurm's own address of it is taken."""
    lonely = cluster.folder / "hosts-lonely"
    lonely.write_text("127.0.0.1 localhost\n", encoding="utf-8")

    finished = cluster.run(*TWO_NODES, *in_changed_files(f"mount --bind {lonely} /etc/hosts"))

    assert 0 == finished.code, finished.text
    assert expected(2) == sorted(finished.stdout.splitlines())


def test_tasks_that_the_user_has_placed_meet_where_the_first_is(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Task 0 is on the second node."""
    places = tmp_path / "places"
    places.write_text("n2\nn1\nn1\n", encoding="utf-8")
    options = ["--distribution=arbitrary", "--ntasks=3"]

    finished = cluster.run("srun", *options, *PROGRAM, environ={"SLURM_HOSTFILE": str(places)})

    assert 0 == finished.code, finished.text
    assert ["n2: 6", "n1: 6", "n1: 6"] == re.findall(r"on (n\d: \d+)", "\n".join(sorted(finished.stdout.splitlines())))


def test_a_rank_that_fails_ends_the_step(cluster: SlurmCluster) -> None:
    """The others are ended, and srun tells the code of the one that failed."""
    finished = cluster.run(*TWO_NODES, "--kill-on-bad-exit=1", *PROGRAM, "fail", "2")

    assert 0 != finished.code
    assert re.search(r"n2: task 2: Exited with exit code 7", finished.stderr), finished.text


def test_tasks_of_an_array_beside_each_other_do_not_meet(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Both are on both nodes at the same time, and neither sees the other's ranks."""
    program = " ".join((*PROGRAM, "beside", "here-$SLURM_ARRAY_TASK_ID", "here-$((1 - SLURM_ARRAY_TASK_ID))"))
    script = tmp_path / "array.sbatch"
    script.write_text(f"#!/bin/bash\nsrun --kill-on-bad-exit=1 {program}\n", encoding="utf-8")

    options = ["--nodes=2", "--ntasks-per-node=2", "--array=0-1", "--output=out-%a"]
    submitted = cluster.run("sbatch", *options, str(script), folder=tmp_path)
    cluster.wait_until_idle()

    assert 0 == submitted.code, submitted.text
    texts = [(tmp_path / f"out-{number}").read_text() for number in range(2)]
    assert [expected(2)] * 2 == [sorted(text.splitlines()) for text in texts]


def test_a_requeued_job_meets_anew(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The ranks of the first start are stopped in the middle; those of the second do not wait for them."""
    program = " ".join((*PROGRAM, "beside", "here", "go"))
    script = tmp_path / "job.sbatch"
    script.write_text(f"#!/bin/bash\nsrun {program}\n", encoding="utf-8")
    options = ["--nodes=2", "--ntasks-per-node=2", "--output=out", "--open-mode=append", "--requeue", "--parsable"]

    submitted = cluster.run("sbatch", *options, str(script), folder=tmp_path)
    wait_until((tmp_path / "here").exists)
    requeued = cluster.run("scontrol", "requeue", submitted.stdout.strip())
    (tmp_path / "go").touch()
    cluster.wait_until_idle()

    assert 0 == requeued.code, requeued.text
    output = (tmp_path / "out").read_text()
    assert expected(2, restart=1) == sorted(re.findall(r"^rank .*restart 1$", output, re.MULTILINE)), output


def test_the_commands_of_the_page_run(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Batch jobs, a tuned one, an interactive one, an array, the launcher in one; each ends before the next begins."""
    for block in blocks_of(PAGE):
        if block.duty == "file":
            (tmp_path / block.about).write_text(block.text, encoding="utf-8")
    (tmp_path / "train.py").write_text(file_of(PAGE.parent / "first_job.md", "train.py"), encoding="utf-8")
    wait = Block("run", "platform", "sh", 'until [ -z "$(squeue --noheader)" ]; do sleep 0.1; done\n')
    blocks = [either for block in blocks_of(PAGE) for either in (block, wait)]
    (tmp_path / "page.sh").write_text(script_of(blocks, ("platform",)), encoding="utf-8")
    budget = {"AUTOTUNE_MAX_SAMPLES": "3", "AUTOTUNE_WARMUP_STEPS": "10", "AUTOTUNE_STEPS_PER_SAMPLE": "5"}
    alone = {"AUTOTUNE_LOCK": "0"}  # other tests of this machine tune beside this one

    finished = cluster.run("bash", "page.sh", folder=tmp_path, environ={**budget, **alone}, limit_s=400.0)

    logs = {path.name: path.read_text() for path in tmp_path.glob("*.log")}
    assert 0 == finished.code, (finished.text, logs)
    assert "4 ranks, loss " in finished.stdout, finished.text
    assert ["2 ranks"] * 2 + ["4 ranks"] * 3 == sorted(re.findall(r"\d ranks", "".join(logs.values()))), logs
    (run,) = read_log(tmp_path / "tuning.jsonl").runs
    assert run.run is not None
    assert [2, 2] == list(run.run.key["layout"])


def test_nothing_is_left_of_a_cluster_whose_starter_is_killed(tmp_path: Path) -> None:
    """The kernel ends its processes, and with them go network, mounts and names."""
    code = "from tests.platforms.slurm_cluster import *; import sys, time\n"
    code += "with slurm_cluster(Path(sys.argv[1])) as made: print(made.init_pid, flush=True); time.sleep(600)"
    folder = tmp_path / "cluster"
    folder.mkdir()

    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        assert int(starter.stdout.readline()) > 1
        assert _processes_of(folder)
        os.kill(starter.pid, signal.SIGKILL)

    wait_until(lambda: not _processes_of(folder))
    assert str(folder) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def _processes_of(folder: Path) -> list[str]:
    """Return the command lines that name a folder, of processes other than this test's own."""
    command = ["pgrep", "--full", "--list-full", "--", f"-f {folder}/"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
