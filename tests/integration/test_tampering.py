# SPDX-License-Identifier: Apache-2.0
"""Bytes of a control connection that are changed on the way, after both ends have proved themselves.

Without TLS they are unprotected (docs/reference/environment.md says so); but a job whose frames make no sense ends,
with words, on every rank, and never by a signal or not at all. `test_tls.py` has the same with TLS.
"""

import re
from collections.abc import Callable

import pytest

from tests.integration.jobs import launched, launched_by, run_job

CHANGES = 4
MANY = 200
ENVIRON = {"RINGTUNE_TRANSPORT": "tcp", "RINGTUNE_TIMEOUT_S": "5"}
DEADLINE_S = 90.0
FAILED = 3
"""The exit code of a rank that has got an error."""


def check(seed: int, changes: int) -> bool:
    """Run a job of two ranks through a relay; return whether its sums were right; a silent end fails."""
    command = launched_by("patient_launcher", launched(2, "tampered_wire", str(seed), str(changes), "control"))

    finished = run_job(command, ENVIRON, deadline_s=DEADLINE_S)

    assert "leads through a relay" in finished.stdout, finished.text
    assert "WRONG" not in finished.stdout, finished.text
    assert finished.code in {0, FAILED}, finished.text
    words = re.findall(r"^rank \S+: (all sums are right|[A-Za-z]+: .{20,})$", finished.stdout, re.MULTILINE)
    assert 2 == len(words), finished.text
    return finished.code == 0


def test_a_relay_that_changes_nothing_is_not_noticed() -> None:
    """The control: the same job, through the same relay, is right."""
    assert check(0, 0)


@pytest.mark.parametrize("seed", [1, 3, 4, 11, 12, 46])
def test_changed_frames_end_the_job_with_words(seed: int) -> None:
    """A response that no rank waits for or can follow, an unknown config, a frame that is none, a lost request."""
    assert not check(seed, CHANGES)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_changed_frames_end_the_job_or_do_nothing(record_property: Callable[[str, object], None]) -> None:
    """Two hundred jobs, each with other bytes changed: no hang, no signal, no wrong sum."""
    right = sum(check(seed, CHANGES) for seed in range(MANY))

    record_property("right", f"{right} of {MANY}")
