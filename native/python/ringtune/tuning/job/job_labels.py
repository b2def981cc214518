# SPDX-License-Identifier: Apache-2.0
"""Labels of a job for the log and the service: its name, tags, commit and machines.

The commit is read from the files of git, without git: it is looked for above the program that runs.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtune.settings.settings import Settings
from ringtune.tuner import JobLabels

MAX_LINE_BYTES = 4096
MAX_PACKED_BYTES = 4 << 20
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
LINK_TO_FOLDER = "gitdir: "
REFERENCE = "ref: "


def job_labels(settings: Settings, hardware: Sequence[Mapping[str, Any]]) -> JobLabels:
    """Return the labels of this job.

    Args:
        settings: The job's.
        hardware: The facts of its machines, from `fingerprints.hardware_facts`.
    """
    return JobLabels(
        job_name=settings.job_name,
        tags=settings.tags,
        commit=settings.commit or commit_above(_program_folder()),
        hardware_name=settings.hardware_name or settings.hardware,
        machines=kinds_of(hardware),
    )


def kinds_of(hardware: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the machines' facts with those that are alike as one, the most frequent first."""
    counts = Counter(_fact_pairs(machine) for machine in hardware)
    return tuple(
        {"hosts": count, **{name: list(value) if isinstance(value, tuple) else value for name, value in kind}}
        for kind, count in counts.most_common()
    )


def commit_above(folder: Path | None) -> str | None:
    """Return the commit that is checked out in the git repository around a folder; None where there is none."""
    if folder is None:
        return None
    try:
        git = next((place / ".git" for place in (folder, *folder.parents) if (place / ".git").exists()), None)
        return None if git is None else _commit_in(git)
    except (OSError, ValueError):
        return None  # a repository that cannot be read is none of the job's business


def _program_folder() -> Path | None:
    """Return where the program lies that runs, None where it is no file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if path is None else Path(path).resolve().parent


def _commit_in(git: Path) -> str | None:
    folder = git
    if git.is_file():
        text = _line_in(git)
        if not text.startswith(LINK_TO_FOLDER):
            return None
        folder = (git.parent / text.removeprefix(LINK_TO_FOLDER)).resolve()
    head = _line_in(folder / "HEAD")
    if not head.startswith(REFERENCE):
        return head if COMMIT.fullmatch(head) else None
    name = head.removeprefix(REFERENCE)
    common = (folder / _line_in(folder / "commondir")) if (folder / "commondir").exists() else folder
    for place in (folder / name, common / name):
        if place.is_file():
            commit = _line_in(place)
            return commit if COMMIT.fullmatch(commit) else None
    return _packed(common / "packed-refs", name)


def _packed(path: Path, name: str) -> str | None:
    """Return the commit of a branch that git has packed."""
    if not path.is_file() or path.stat().st_size > MAX_PACKED_BYTES:
        return None
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        commit, _, branch = line.partition(" ")
        if branch == name and COMMIT.fullmatch(commit):
            return commit
    return None


def _line_in(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(MAX_LINE_BYTES).strip()


def _fact_pairs(machine: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return a machine's facts, those of its link beside the others, as pairs that can be counted."""
    link = machine.get("link") or {}
    facts = {
        "cpu_model": machine.get("cpu_model"),
        "cores": machine.get("cores"),
        "numa_nodes": machine.get("numa_nodes"),
        "gpus": tuple(machine.get("gpus") or ()),
        "link_kind": link.get("kind"),
        "link_bits_per_s": link.get("bits_per_s"),
    }
    return tuple(facts.items())
