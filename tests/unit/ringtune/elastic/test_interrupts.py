# SPDX-License-Identifier: Apache-2.0
"""Losses among the errors that end a training function."""

import pytest

from ringtune.elastic.interrupts import is_loss, is_timeout, reason_of
from ringtune.errors import CollectiveTimeout, ConfigError, DeviceError, EngineError, MismatchError, PeerLostError


def raised_from(cause: BaseException) -> BaseException:
    """Return an error of the user's that was raised from another one."""
    error = ValueError("the step failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("kind", [EngineError, PeerLostError, CollectiveTimeout, DeviceError])
def test_a_failed_collective_is_a_loss(kind: type[EngineError]) -> None:
    """Errors that leave a world unusable, and those that were raised from one, are losses."""
    assert is_loss(kind("gone"))
    assert is_loss(raised_from(kind("gone")))


@pytest.mark.parametrize("error", [ValueError("wrong"), ConfigError("wrong"), MismatchError("shapes"), RuntimeError()])
def test_a_fault_of_the_program_is_no_loss(error: Exception) -> None:
    """An error that the same steps would meet again is none."""
    assert not is_loss(error)


def test_a_loss_that_the_user_has_dealt_with_is_none() -> None:
    """An error that hides its cause on purpose passes as the user's own."""
    own = ValueError("the user's own")
    own.__context__, own.__suppress_context__ = PeerLostError("gone"), True

    assert not is_loss(own)


def test_a_loss_that_is_found_again_in_the_clearing_up_is_one() -> None:
    """An error raised while a loss is handled is a loss too."""
    second = ValueError("closing failed")
    second.__context__ = PeerLostError("gone")

    assert is_loss(second)


def test_the_reason_is_one_line_also_out_of_a_framework_s_text() -> None:
    """TensorFlow's error for a node has a traceback around the engine's words; an error may have no words at all."""
    graph = RuntimeError("Graph execution error:\n  File a.py\nPeerLostError: rank 1 died\nTraceback ...")

    assert "rank 1 died" == reason_of(graph)
    assert "gone" == reason_of(PeerLostError("gone\nand more"))
    assert "PeerLostError" == reason_of(PeerLostError())


def test_a_rank_that_lives_and_does_not_come_is_a_timeout() -> None:
    """A collective that ran into its limit, also out of a framework's text; a rank that died is none."""
    assert is_timeout(CollectiveTimeout("late"))
    assert is_timeout(raised_from(CollectiveTimeout("late")))
    assert is_timeout(RuntimeError("Graph execution error:\nCollectiveTimeout: 'w' waits for rank 1"))
    assert not is_timeout(PeerLostError("gone"))
    assert not is_timeout(RuntimeError("PeerLostError: rank 1 died"))
