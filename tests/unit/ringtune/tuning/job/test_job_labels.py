# SPDX-License-Identifier: Apache-2.0
"""Labels of a job: its commit is found without git, its machines are counted."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.identity.fingerprints import hardware_facts
from ringtune.settings.settings import Settings
from ringtune.tuning.job.job_labels import commit_above, job_labels, kinds_of

MACHINE = {"cpu_model": "EPYC", "cores": 64, "numa_nodes": 2, "gpus": ["A100", "A100"], "link_bits_per_s": 10**10}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, as somebody with a name."""
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a folder in it."""
    folder = tmp_path / "repository"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "train.py").write_text("pass\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_the_commit_is_what_git_says(repository: Path, tmp_path: Path) -> None:
    """On a branch, packed or not, without a branch, and in a second working tree."""
    wanted = git(repository, "rev-parse", "HEAD")
    on_branch = commit_above(repository / "src" / "deep")
    git(repository, "pack-refs", "--all")
    packed = commit_above(repository)
    git(repository, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "-m", "second")
    in_tree = commit_above(tmp_path / "tree" / "src")
    git(repository, "checkout", "--quiet", "--detach")
    detached = commit_above(repository)

    assert [wanted] * 3 == [on_branch, packed, detached]
    assert git(tmp_path / "tree", "rev-parse", "HEAD") == in_tree != wanted


def test_without_a_readable_repository_there_is_no_commit(tmp_path: Path) -> None:
    """An empty one, a damaged one, and no folder at all."""
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / ".git").write_bytes(b"\xff\xfe gitdir nowhere\n")
    (tmp_path / "no head" / ".git").mkdir(parents=True)

    for folder in (tmp_path / "empty", tmp_path / "damaged", tmp_path / "no head", None):
        assert None is commit_above(folder)


def test_machines_that_are_alike_are_one() -> None:
    """Machines with equal facts and links are listed once."""
    hardware = hardware_facts([MACHINE, {**MACHINE, "cores": 32}, MACHINE], "tcp")

    kinds = kinds_of(hardware)

    link = {"link_kind": "tcp", "link_bits_per_s": 10**10}
    facts = {name: value for name, value in MACHINE.items() if name != "link_bits_per_s"}
    assert ({"hosts": 2, **facts, **link}, {"hosts": 1, **facts, "cores": 32, **link}) == kinds


def test_labels_are_what_the_variables_say() -> None:
    """The machines' given name comes first, else the word that overrides their fingerprint."""
    settings = Settings.from_environment(
        {
            "AUTOTUNE_JOB_NAME": " first try ",
            "AUTOTUNE_TAGS": "nightly, a100,nightly",
            "AUTOTUNE_COMMIT": "v1.2",
            "RINGTUNE_HARDWARE": "lab",
        }
    )

    labels = job_labels(settings, [])
    named = job_labels(replace(settings, hardware_name="Rack 7"), [])

    assert ("first try", ("nightly", "a100"), "v1.2") == (labels.job_name, labels.tags, labels.commit)
    assert ("lab", "Rack 7") == (labels.hardware_name, named.hardware_name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AUTOTUNE_JOB_NAME", " "),
        ("AUTOTUNE_JOB_NAME", "x" * 201),
        ("AUTOTUNE_TAGS", "a,,b"),
        ("AUTOTUNE_TAGS", ",".join(map(str, range(21)))),
        ("AUTOTUNE_COMMIT", "x" * 101),
        ("RINGTUNE_HARDWARE_NAME", "a\tb"),
    ],
)
def test_labels_that_cannot_be_shown_stop_the_job(name: str, text: str) -> None:
    """The error has the variable and the allowed values."""
    with pytest.raises(ConfigError, match=rf"{name}=.*printable"):
        Settings.from_environment({name: text})
