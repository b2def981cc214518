# SPDX-License-Identifier: Apache-2.0
"""The caches and the spool: their places and sizes, the results that wait in them, whether they can be written."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ringtune.system.cache_files import user_cache_folder
from ringtune.system.counts import counted
from ringtune.tuner import StudyStore
from ringtune.tuning.job.memory import FILE_NAME, OFF
from ringtune.tuning.service_link.spool import SUFFIX
from ringtune.tuning.service_link.spool_file import MAX_FILE_BYTES
from ringtune.tuning.service_link.spool_format import payloads
from ringtune.world.algorithm_tables.store import TableStore

from .finding import DoctorSection, FoundProblem, bytes_text

CACHE_NAME = "AUTOTUNE_CACHE"
LEAST_FREE_BYTES = 64 << 20
"""A full spool; with less space, results may be lost."""
MAX_COUNTED_FILES = 10_000


def examine_storage(environ: Mapping[str, str]) -> DoctorSection:
    """Return the findings about the user's cache folder, the file of studies, the algorithm tables and the spool.

    Args:
        environ: For `XDG_CACHE_HOME` and `AUTOTUNE_CACHE`.
    """
    folder = user_cache_folder(environ)
    where, problems = _folder(folder)
    studies, study_problems = _studies(environ.get(CACHE_NAME), folder)
    findings = [("cache folder", where), studies, *_algorithm_tables(TableStore.of_user(environ)), _spool(folder)]
    return DoctorSection("caches and spool", findings, [*problems, *study_problems])


def _folder(folder: Path) -> tuple[str, list[FoundProblem]]:
    """Return the cache folder with its size and state."""
    files = list(_regular_files(folder))
    there = next(place for place in (folder, *folder.parents) if place.exists())
    size = f"{counted(len(files), 'file')}, {bytes_text(sum(size for _, size in files))}"
    text = f"{folder}: {size}" if folder.exists() else f"{folder}: not made yet"
    if not _can_be_written(there):
        remedy = "make it a folder of yours that can be written, or set XDG_CACHE_HOME to one."
        what = f"nothing can be kept in {folder}: {there} cannot be written"
        return f"{text}, cannot be written", [FoundProblem(what, remedy)]
    free = shutil.disk_usage(there).free
    text = f"{text}, can be written, {bytes_text(free)} free"
    if free < LEAST_FREE_BYTES:
        remedy = "free some, or set XDG_CACHE_HOME to a folder on another disk."
        return text, [FoundProblem(f"the disk of {folder} has {bytes_text(free)} left", remedy)]
    return text, []


def _can_be_written(folder: Path) -> bool:
    """Return whether a file can be made in a folder, by making one that has no name."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _studies(setting: str | None, folder: Path) -> tuple[tuple[str, str], list[FoundProblem]]:
    """Return the file in which earlier jobs left their studies."""
    name = "studies"
    if setting == OFF:
        return (name, f"off ({CACHE_NAME}=0)"), []
    path = Path(setting) if setting else folder / FILE_NAME
    try:
        if not path.exists():
            return (name, f"{path}: none yet"), []
        if not path.is_file():
            raise IsADirectoryError(0, "no regular file")  # reading a pipe might never end
        contents = StudyStore(path).contents()
        finished = sum(run.result is not None for run in contents.runs)
        unfinished = len(contents.runs) - finished
        text = (
            f"{path}: {counted(finished, 'finished run')}, {unfinished} unfinished, {bytes_text(path.stat().st_size)}"
        )
    except OSError as error:
        remedy = f"make it readable, remove it, or set {CACHE_NAME} to another file or to 0."
        reason = error.strerror or str(error)
        return (name, f"{path}: cannot be read ({reason})"), [FoundProblem(f"{path} cannot be read ({reason})", remedy)]
    if not contents.bad_line_count:
        return (name, text), []
    what = f"{path} is damaged: left out {counted(contents.bad_line_count, 'line')} of it"
    return (name, f"{text}, {counted(contents.bad_line_count, 'line')} damaged"), [
        FoundProblem(what, "remove it to begin anew.")
    ]


def _algorithm_tables(store: TableStore) -> list[tuple[str, str]]:
    """Return the tables that jobs here have measured, each with the ranks per host that it is for."""
    name = "algorithm table"
    found = [
        (name, f"{path.name} cannot be read" if table is None else f"{path.name}, {table.summary()}")
        for path, table in store.tables()
    ]
    return found or [(name, "none measured yet: the compiled-in one")]


def _spool(folder: Path) -> tuple[str, str]:
    """Return the number and size of the results that wait to be delivered to services."""
    waiting = files = size = 0
    for path, file_bytes in _regular_files(folder / "spool"):
        if path.suffix == SUFFIX and file_bytes:
            files, size = files + 1, size + file_bytes
            waiting += len(payloads(_start_of(path)))
    place = folder / "spool"
    if not files:
        return "spool", f"{place}: nothing waits to be delivered"
    return (
        "spool",
        f"{place}: to be delivered: {counted(waiting, 'result')} of {counted(files, 'job')}, {bytes_text(size)}",
    )


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return b""


def _regular_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the regular files below a folder with their sizes, without those that cannot be read."""
    counted = 0
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            try:
                facts = path.lstat()
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode):
                yield path, facts.st_size
                counted += 1
            if counted >= MAX_COUNTED_FILES:
                return
