# SPDX-License-Identifier: Apache-2.0
"""A place belongs to the first process that calls init() with its variables; heirs of these are refused at once."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.jobs import PROGRAMS, Finished, launched, program, ringtune, run_job, torchrun

KINDS = ("earlier child", "program", "earlier environment", "worker", "later child")
LIMIT_S = 60.0  # a meeting waits for 120 s for ranks that do not come


def refusals(finished: Finished) -> list[str]:
    """Return the inheritors' errors, after a check that none joined or waited, and that the job went on."""
    found = re.findall(r"^(.*) refused after ([0-9.]+) s: (.*)$", finished.stdout, re.MULTILINE)
    assert Counter(dict.fromkeys(KINDS, 2)) == Counter(kind for kind, _, _ in found), finished.text
    assert max(float(seconds) for _, seconds, _ in found) < LIMIT_S, finished.text
    assert 0 == finished.code, finished.text
    assert all(f"rank {rank} of 2 is back" in finished.stdout for rank in range(2)), finished.text
    return [words for _, _, words in found]


def test_who_inherits_a_place_is_told_and_joins_nothing() -> None:
    """Programs, workers and forked children are refused on all ranks; the owner joins again without the variables."""
    finished = run_job(launched(2, "inherits_place"))

    errors = refusals(finished)
    assert all(
        5 == sum(f"the place of rank {rank} of 2 belongs to process" in words for words in errors) for rank in (0, 1)
    )
    for words in errors:
        assert "inherits_place.py), which started this one, already" in words
        assert 'guard init() with `if __name__ == "__main__":`' in words
        assert "without RINGTUNE_RANK, RINGTUNE_WORLD_SIZE, RINGTUNE_RENDEZVOUS" in words
        assert "`ringtune run -np N COMMAND`" in words


def test_torchruns_ranks_keep_their_places(tmp_path: Path) -> None:
    """A process that a rank of torchrun starts does not ask the agent's store for a second job."""
    finished = run_job(torchrun(tmp_path / "python", str(PROGRAMS / "inherits_place.py")))

    errors = refusals(finished)
    assert all("without TORCHELASTIC_USE_AGENT_STORE, RANK, WORLD_SIZE" in words for words in errors), finished.text


def test_a_program_without_the_named_variables_works_alone() -> None:
    """The error's advice is good."""
    unset = [part for name in ("RANK", "WORLD_SIZE", "RENDEZVOUS") for part in ("-u", f"RINGTUNE_{name}")]

    finished = run_job(ringtune("run", "-np", "2", "env", *unset, *program("inherits_place", "inherit", "it")))

    assert (0, 2) == (finished.code, finished.stdout.count("it joined as rank 0 of 1")), finished.text


def test_what_stands_between_launcher_and_rank_is_no_owner() -> None:
    """Programs of one script that run after each other join; so do programs that a shell execs or runs behind."""
    script = '"$@" && exec sh -c \'env A=1 "$@" & wait $!\' sh "$@"'

    finished = run_job(ringtune("run", "-np", "2", "sh", "-c", script, "sh", *program("where")))

    assert (0, 4) == (finished.code, len(finished.stdout.strip().splitlines())), finished.text


WRAPPERS = {
    "a shell that waits": ["sh", "-c", '"$@"; exit $?', "sh"],
    "a program that starts it as conda run does": [
        sys.executable,
        "-c",
        "import subprocess, sys; sys.exit(subprocess.run(['bash', '-c', '\"$@\"', 'sh', *sys.argv[1:]]).returncode)",
    ],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_ranks_behind_a_wrapper_join(wrapper: str) -> None:
    """The wrapper never meets with the place, and so owns none."""
    finished = run_job(ringtune("run", "-np", "2", *WRAPPERS[wrapper], *program("where")))

    assert (0, 2) == (finished.code, finished.stdout.count('"size": 2')), finished.text


def test_ranks_behind_a_profiler_join(tmp_path: Path) -> None:
    """`python -m cProfile` runs the program in its own process."""
    python, path, *arguments = program("where")
    profile = str(tmp_path / "profile")

    finished = run_job(ringtune("run", "-np", "2", python, "-m", "cProfile", "-o", profile, path, *arguments))

    assert (0, 2) == (finished.code, finished.stdout.count('"size": 2')), finished.text
