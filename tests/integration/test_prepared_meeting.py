# SPDX-License-Identifier: Apache-2.0
"""A meeting that a platform's own channel prepares: rank 0 listens before anybody knows the address."""

import pytest

from tests.integration.jobs import program, run_job


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_ranks_meet_on_the_socket_that_was_handed_over(kind: str) -> None:
    """The open socket serves the first meeting; one of another address is closed, and later meetings open their own."""
    finished = run_job(program("prepared_meeting", kind))

    assert 0 == finished.code, finished.text
    expected = [f"turn {turn}: {rank} of 2 counted 2" for turn in (0, 1) for rank in (0, 1)] * 2
    assert sorted(expected) == sorted(finished.stdout.splitlines()), finished.text
