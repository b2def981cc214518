# SPDX-License-Identifier: Apache-2.0
"""The launcher's plan."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.hosts import parse_hosts
from ringtune.launch.plan import make_plan
from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE
from ringtune.system.usable_cores import usable_cores

ENVIRON = {"PATH": "/usr/bin:/bin", "AUTOTUNE_SEED": "3", "HOROVOD_CYCLE_TIME": "2"}


def test_each_rank_has_its_place() -> None:
    """Ranks differ in their number and share all else."""
    plan = make_plan(["true"], 3, {}, ENVIRON)

    assert ["0", "1", "2"] == [environment["RINGTUNE_RANK"] for environment in plan.environments]
    assert {"3"} == {environment["RINGTUNE_WORLD_SIZE"] for environment in plan.environments}
    assert 1 == len({environment["RINGTUNE_RENDEZVOUS"] for environment in plan.environments})


def test_each_rank_finds_its_place_in_horovods_names() -> None:
    """Programs that read Horovod's variables find this job's values, not those of a job around it."""
    environ = {**ENVIRON, "HOROVOD_RANK": "9", "HOROVOD_SIZE": "10"}
    plan = make_plan(["true"], 3, {}, environ, hosts=parse_hosts("a:2,b:1"))

    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "HOSTNAME")
    places = [" ".join(environment[f"HOROVOD_{name}"] for name in names) for environment in plan.environments]
    assert ["0 3 0 2 0 2 a", "1 3 1 2 0 1 a", "2 3 0 1 1 2 b"] == places


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
    """A setting from outside holds inside, and an option comes on top."""
    (environment,) = make_plan(["true"], 1, {"AUTOTUNE": "1"}, ENVIRON).environments

    assert ("1", "3", "2") == tuple(environment[n] for n in ("AUTOTUNE", "AUTOTUNE_SEED", "HOROVOD_CYCLE_TIME"))


def test_a_command_is_looked_for_where_the_ranks_will(tmp_path: Path) -> None:
    """A PATH that is sent to them holds for the check, too."""
    (tmp_path / "mine").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "mine").chmod(0o755)

    plan = make_plan(["mine"], 1, {"PATH": str(tmp_path)}, ENVIRON)

    assert str(tmp_path) == plan.environments[0]["PATH"]


def test_threads_are_shared_out_unless_chosen() -> None:
    """Ranks do not each take all cores; the user's own choice holds."""
    (shared,) = make_plan(["true"], 1, {}, ENVIRON).environments
    (chosen,) = make_plan(["true"], 1, {}, {**ENVIRON, "OMP_NUM_THREADS": "7"}).environments

    assert int(shared["OMP_NUM_THREADS"]) >= 1
    assert "7" == chosen["OMP_NUM_THREADS"]
    assert {"1"} == {e["OMP_NUM_THREADS"] for e in make_plan(["true"], 250, {}, ENVIRON).environments}


def test_hosts_are_filled_and_their_cores_shared_by_their_own_ranks() -> None:
    """The plan places ranks on hosts, and shares each host's threads among its ranks."""
    plan = make_plan(["true"], 3, {}, ENVIRON, hosts=parse_hosts("a:2,b"))

    assert [("a", (0, 1)), ("b", (2,))] == [(share.host, share.ranks) for share in plan.shares]
    assert ["a", "a", "b"] == [plan.host_of(rank) for rank in range(3)]
    assert str(usable_cores()) == plan.environments[2]["OMP_NUM_THREADS"]


@pytest.mark.parametrize(
    ("hosts", "prefix_output", "is_prefixed"),
    [
        (None, None, False),
        (None, True, True),
        (None, False, False),
        ("a:2", None, True),
        ("a:2", False, False),
    ],
)
def test_lines_are_prefixed_where_hosts_are_named(
    hosts: str | None, prefix_output: bool | None, is_prefixed: bool
) -> None:
    """On one machine lines stay as they are by default; Python does not hold back its output to a pipe."""
    named = None if hosts is None else parse_hosts(hosts)
    plan = make_plan(["true"], 2, {}, ENVIRON, hosts=named, prefix_output=prefix_output)

    assert is_prefixed == plan.is_prefixed
    assert not plan.streams.has_terminal
    assert "1" == plan.environments[0]["PYTHONUNBUFFERED"]


def test_the_working_directory_keeps_the_name_that_the_shell_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to the folder is more likely to be there on other hosts; a stale name is not believed."""
    (tmp_path / "actual").mkdir()
    (tmp_path / "link").symlink_to("actual")
    monkeypatch.chdir(tmp_path / "actual")

    by_link = make_plan(["true"], 1, {}, {**ENVIRON, "PWD": str(tmp_path / "link")})
    by_stale = make_plan(["true"], 1, {}, {**ENVIRON, "PWD": str(tmp_path)})

    assert str(tmp_path / "link") == by_link.directory
    assert str(tmp_path / "actual") == by_stale.directory


@pytest.mark.parametrize(
    ("ranks", "hosts", "word"),
    [
        (3, "a:2", "-np 3 is more"),
        (0, "a:2", "-np 0 is not"),
        (MAX_WORLD_SIZE + 1, "a:250", "-np"),
        (1, "a:x", "'a:x'"),
    ],
)
def test_hosts_that_do_not_fit_are_an_error(ranks: int, hosts: str, word: str) -> None:
    """Wrong usage of hosts is found before any is called."""
    with pytest.raises(ConfigError, match=word):
        make_plan(["true"], ranks, {}, ENVIRON, hosts=parse_hosts(hosts))


@pytest.mark.parametrize(
    ("command", "ranks", "word"),
    [([], 2, "no command"), (["true"], 0, "-np 0"), (["true"], 251, "-np 251"), (["no-such-program"], 2, "not found")],
)
def test_what_cannot_be_started_is_an_error(command: list[str], ranks: int, word: str) -> None:
    """Wrong usage is found before anything is started."""
    with pytest.raises(ConfigError, match=word):
        make_plan(command, ranks, {}, ENVIRON)


def test_a_script_that_is_no_command_gets_its_interpreter_named(tmp_path: Path) -> None:
    """The file is there, but is not executable."""
    script = tmp_path / "hello.py"
    script.write_text("print(1)\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=f"write: python {script}"):
        make_plan([str(script)], 2, {}, {})
