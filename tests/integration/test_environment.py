# SPDX-License-Identifier: Apache-2.0
"""Environments of any content: a job starts, or names at once the variable, the value, and the allowed ones.

No test here asserts a speed: a launch that does not end within a job's deadline hangs.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringtune.errors import CollectiveTimeout, ConfigError
from ringtune.meeting.bootstrap import find_place
from ringtune.settings.settings import SECRET_NAMES, Settings, find_notes
from ringtune.settings.variables import job_variables
from tests.integration.jobs import ringtune, run_job

ALGORITHMS = ("direct", "slices")
JOB_NAMES = tuple(job_variables(ALGORITHMS))
HOROVOD_NAMES = ("HOROVOD_FUSION_THRESHOLD", "HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY", "HOROVOD_AUTOTUNE")
PLACE_NAMES = ("RINGTUNE_RANK", "RINGTUNE_WORLD_SIZE", "RINGTUNE_RENDEZVOUS", "RINGTUNE_JOB_KEY")
SLURM_NAMES = ("SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID", "SLURM_STEP_NODELIST")
TORCH_NAMES = ("RANK", "WORLD_SIZE")
NAMES = (*JOB_NAMES, *HOROVOD_NAMES, *PLACE_NAMES, *SLURM_NAMES, "SLURM_NTASKS", *TORCH_NAMES)
HIDDEN = ("RINGTUNE_JOB_KEY", *SECRET_NAMES)
REASONS = ("allowed", "disagree", "fixes it", "cannot be read", "is set, but", "is not set", "has no address here")

plausible = st.sampled_from(
    [
        *(
            "",
            "0",
            "1",
            "2",
            "-1",
            "true",
            "no",
            "1e999",
            "nan",
            "0x10",
            "1_000",
            "1.5",
            "10",
            "9" * 400,
            "٣",
            "\udcff",
        ),
        *(
            "auto",
            "shm",
            "tcp",
            "direct",
            "warning",
            "64MiB",
            "64 KB",
            "fusion_bytes=0",
            "cycle_ms=2,cycle_ms=3",
            "=,=",
        ),
        *("unix:@job", "tcp://127.0.0.1:4000", "tcp://h:99999", "ab" * 16, "gpu[1-2]", "gpu[1", "red\x1b[31m"),
    ]
)
anything = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=12)
values = plausible | anything | st.integers().map(str) | st.floats().map(repr)


def environments(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    """Return environments that set some of the variables."""
    return st.dictionaries(st.sampled_from(names), values, max_size=4)


def check_explanation(error: ConfigError, environ: dict[str, str]) -> None:
    """An error names a variable, its value unless that is secret, and the remedy."""
    text = str(error)
    named = [name for name in NAMES if re.search(rf"(?<![A-Z_]){name}(?![A-Z_])", text)]
    shown = [name for name in named if repr(environ.get(name)) in text or environ.get(name, "?") in text]
    assert named, (environ, text)
    assert shown or any(name in HIDDEN or name not in environ for name in named), (environ, text)
    assert any(reason in text for reason in REASONS), (environ, text)


def check_settings(environ: dict[str, str]) -> None:
    """Read the settings as a rank does, and fit them to worlds of one and of two hosts."""
    with explaining(environ):
        found = Settings.from_environment(environ, ALGORITHMS)
        for ranks_per_host in ([1], [4], [2, 2], [1, 1]):
            found.fitted(ranks_per_host)
        assert all(isinstance(note, str) for note in find_notes(environ, ALGORITHMS))
        assert found == Settings.from_given(found.given)


def check_place(environ: dict[str, str]) -> None:
    """Find the place as a rank does; the other tasks of a step never come."""
    try:
        with explaining(environ):
            place = find_place(environ, 0, 0.05)
            assert 0 <= place.rank < place.world_size
    except CollectiveTimeout:
        assert "SLURM_STEP_ID" in environ, environ


@contextmanager
def explaining(environ: dict[str, str]) -> Iterator[None]:
    """Check the refusal that the block raises, if it does."""
    try:
        yield
    except ConfigError as error:
        check_explanation(error, environ)


@settings(max_examples=300, deadline=None)
@given(environments((*JOB_NAMES, *HOROVOD_NAMES)))
def test_settings_are_read_or_refused_with_a_reason(environ: dict[str, str]) -> None:
    """No text leads to another error than the one that explains it."""
    check_settings(environ)


@settings(max_examples=300, deadline=None)
@given(environments((*PLACE_NAMES, *SLURM_NAMES, *TORCH_NAMES)).filter(lambda e: "book:" not in str(e)))
def test_a_place_is_found_or_refused_with_a_reason(environ: dict[str, str]) -> None:
    """No text leads to another error than the one that explains it."""
    check_place(environ)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_thousand_environments_are_read_or_refused(record_property: Callable[[str, object], None]) -> None:
    """The same, 10,000 times for each."""
    tried: Counter[str] = Counter()

    @settings(max_examples=10_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(environments((*JOB_NAMES, *HOROVOD_NAMES)))
    def settings_many(environ: dict[str, str]) -> None:
        check_settings(environ)
        tried["settings"] += 1

    @settings(max_examples=10_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(environments((*PLACE_NAMES, *SLURM_NAMES, *TORCH_NAMES)).filter(lambda e: "book:" not in str(e)))
    def places_many(environ: dict[str, str]) -> None:
        check_place(environ)
        tried["places"] += 1

    settings_many()
    places_many()
    for what, count in tried.items():
        record_property(what, count)


def launch(environ: dict[str, str]) -> float:
    """Launch a job of one rank; return how long that took. It starts, or ends with code 2 and one paragraph."""
    start_s = time.monotonic()
    finished = run_job(ringtune("run", "-np", "1", "true"), environ)
    assert finished.code in {0, 2}, (environ, finished.text)
    if finished.code == 2:
        assert 1 == len(finished.stderr.strip().splitlines()), (environ, finished.text)
        assert any(name in finished.stderr for name in environ), (environ, finished.text)
    assert "Traceback" not in finished.stderr, (environ, finished.text)
    return time.monotonic() - start_s


@settings(max_examples=12, deadline=None, database=None)
@given(environments(JOB_NAMES).filter(lambda environ: environ and all(_can_be_set(text) for text in environ.values())))
def test_the_launcher_starts_or_ends_with_code_two(environ: dict[str, str]) -> None:
    """The same through the command line, as a user meets it."""
    launch(environ)


def _can_be_set(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
