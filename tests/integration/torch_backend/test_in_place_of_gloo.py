# SPDX-License-Identifier: Apache-2.0
"""Programs that name Gloo, with the backend in its place: `ringtune run --torch-backend`, and the variable alone."""

import sys
from pathlib import Path

import pytest

from tests.integration.jobs import Finished, ringtune, run_job
from tests.integration.remote_shells import ONE, TWO, write_rsh

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "names_gloo.py")
SPAWNS = """
import sys
import torch
from torch import distributed as dist, multiprocessing

def work(rank, meeting):
    dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=2)
    tensor = torch.full((2,), rank + 1.0)
    dist.all_reduce(tensor)
    assert 3.0 == tensor[0].item()
    print(f"rank {rank} of 2 calls it {dist.get_backend()} and has {dist.group.WORLD.name()}", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    multiprocessing.spawn(work, (sys.argv[1],), nprocs=2)
"""
TOLD = "rank 0: torch.distributed runs on ringtune where this program names gloo"


def check(finished: Finished, called: str, kind: str) -> None:
    """Require that both ranks call their backend by a name and have groups of a kind, and that one of them said so."""
    assert 0 == finished.code, finished.text
    for rank in range(2):
        assert f"rank {rank} of 2 calls it {called} and has {kind}" in finished.stdout, finished.text
    assert finished.stderr.count(TOLD) == int(kind == "ringtune"), finished.text


@pytest.mark.parametrize(
    ("given", "called"), [("gloo", "gloo"), ("cpu:gloo", "cpu:gloo"), ("", "undefined"), ("mesh", "undefined")]
)
def test_the_launchers_option_takes_gloos_place(given: str, called: str) -> None:
    """The program's groups are on the engine, whether it names Gloo or no backend; names are as it gave them."""
    command = ["run", "-np", "2", "--torch-backend", sys.executable, PROGRAM, *([given] if given else [])]

    finished = run_job(ringtune(*command))

    check(finished, called, "ringtune")


@pytest.mark.parametrize(("environ", "kind"), [({"RINGTUNE_TORCH_BACKEND": "gloo"}, "ringtune"), ({}, "gloo")])
def test_the_variable_serves_under_torchrun(environ: dict[str, str], kind: str) -> None:
    """The variable alone is enough under another launcher; without it the program runs on Gloo."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

    finished = run_job([*torchrun, PROGRAM, "gloo"], environ)

    check(finished, "gloo", kind)


def test_processes_that_a_program_spawns_inherit_it(tmp_path: Path) -> None:
    """A program that starts its own ranks needs no launcher."""
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS, encoding="utf-8")

    finished = run_job([sys.executable, str(script), str(tmp_path / "meeting")], {"RINGTUNE_TORCH_BACKEND": "gloo"})

    check(finished, "gloo", "ringtune")


def test_ranks_on_several_hosts_find_torch_s_store(tmp_path: Path) -> None:
    """Torch's store is served on rank 0's host, and ranks of both hosts get its address and the variable."""
    options = ["-np", "2", "-H", f"{ONE},{TWO}", "--rsh", write_rsh(tmp_path), "--no-prefix-output", "--torch-backend"]

    finished = run_job(ringtune("run", *options, sys.executable, PROGRAM, "gloo"))

    check(finished, "gloo", "ringtune")
