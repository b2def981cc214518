# SPDX-License-Identifier: Apache-2.0
"""The job key leaves the environment at init(): a rank's processes and logs of the environment do not get it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.jobs import PROGRAMS, Finished, launched, program, run_job, torchrun
from tests.integration.worlds import KEY, explicit, run_all

PROGRAM = "shows_job_key"
SLURM = {
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NODELIST": "node1",
    "RINGTUNE_JOB_KEY": KEY,
}


def check_unseen(finished: Finished, ranks: int) -> None:
    """Check that the key was not seen, in both worlds of each rank."""
    assert 0 == finished.code, finished.text
    seen = Counter(re.findall(r"^(?:here|child|worker) .*$", finished.stdout, re.MULTILINE))
    lines = ("here False None False", "child False False", "worker False")
    assert dict.fromkeys(lines, 2 * ranks) == seen, finished.text


def test_children_of_a_launched_rank_do_not_get_the_key() -> None:
    """A rank joins again without the key in its environment."""
    check_unseen(run_job(launched(2, PROGRAM)), 2)


def test_a_rank_may_launch_a_job_of_its_own() -> None:
    """The inner job has a key and a place of its own."""
    finished = run_job(launched(2, PROGRAM, "launch"))

    check_unseen(finished, 2)
    assert 4 == finished.stdout.count("a rank of 2")


@pytest.mark.parametrize("launcher", ["by hand", "srun"])
def test_a_key_that_the_user_has_set_leaves_too(launcher: str, tmp_path: Path) -> None:
    """The key is in the user's environment, and not in the rank's, whether a launcher gives the places or the user."""
    address = f"unix:@ringtune-key-{tmp_path.name}"
    environs = (
        [explicit(rank, 2, address) for rank in range(2)]
        if launcher == "by hand"
        else [{**SLURM, "SLURM_PROCID": str(rank), "SLURM_JOB_ID": str(hash(tmp_path) % 10**9)} for rank in range(2)]
    )

    for finished in run_all([program(PROGRAM)] * 2, environs):
        check_unseen(finished, 1)


def test_torchruns_ranks_show_no_key(tmp_path: Path) -> None:
    """Theirs goes through the store alone."""
    finished = run_job(torchrun(tmp_path / "python", str(PROGRAMS / f"{PROGRAM}.py")))

    check_unseen(finished, 2)
