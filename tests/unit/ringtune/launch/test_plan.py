# SPDX-License-Identifier: Apache-2.0
"""What the launcher is to start."""

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.plan import make_plan

ENVIRON = {"PATH": "/usr/bin:/bin", "AUTOTUNE_SEED": "3", "HOROVOD_CYCLE_TIME": "2"}


def test_each_rank_has_its_place() -> None:
    """Ranks differ in their number and share all else."""
    plan = make_plan(["true"], 3, {}, ENVIRON)

    assert ["0", "1", "2"] == [environment["RINGTUNE_RANK"] for environment in plan.environments]
    assert {"3"} == {environment["RINGTUNE_WORLD_SIZE"] for environment in plan.environments}
    assert 1 == len({environment["RINGTUNE_RENDEZVOUS"] for environment in plan.environments})


def test_the_job_key_is_in_no_environment() -> None:
    """The key goes by standard input; one that was inherited is not passed on."""
    plan = make_plan(["true"], 2, {}, {**ENVIRON, "RINGTUNE_JOB_KEY": "ab" * 32})

    assert all(plan.job_key not in environment.values() for environment in plan.environments)
    assert all("RINGTUNE_JOB_KEY" not in environment for environment in plan.environments)
    assert plan.job_key not in repr(plan)


def test_two_jobs_share_nothing() -> None:
    """Key and address are fresh for each job."""
    first, second = make_plan(["true"], 1, {}, ENVIRON), make_plan(["true"], 1, {}, ENVIRON)

    assert first.job_key != second.job_key
    assert first.environments[0]["RINGTUNE_RENDEZVOUS"] != second.environments[0]["RINGTUNE_RENDEZVOUS"]


def test_settings_are_forwarded_and_options_added() -> None:
    """What is set outside holds inside, and an option comes on top."""
    (environment,) = make_plan(["true"], 1, {"AUTOTUNE": "1"}, ENVIRON).environments

    assert ("1", "3", "2") == tuple(environment[n] for n in ("AUTOTUNE", "AUTOTUNE_SEED", "HOROVOD_CYCLE_TIME"))


def test_threads_are_shared_out_unless_chosen() -> None:
    """Ranks do not each take all cores; the user's own choice holds."""
    (shared,) = make_plan(["true"], 1, {}, ENVIRON).environments
    (chosen,) = make_plan(["true"], 1, {}, {**ENVIRON, "OMP_NUM_THREADS": "7"}).environments

    assert int(shared["OMP_NUM_THREADS"]) >= 1
    assert "7" == chosen["OMP_NUM_THREADS"]
    assert {"1"} == {e["OMP_NUM_THREADS"] for e in make_plan(["true"], 250, {}, ENVIRON).environments}


@pytest.mark.parametrize(
    ("command", "ranks", "word"),
    [([], 2, "no command"), (["true"], 0, "-np 0"), (["true"], 251, "-np 251"), (["no-such-program"], 2, "not found")],
)
def test_what_cannot_be_started_is_an_error(command: list[str], ranks: int, word: str) -> None:
    """Wrong usage is found before anything is started."""
    with pytest.raises(ConfigError, match=word):
        make_plan(command, ranks, {}, ENVIRON)
