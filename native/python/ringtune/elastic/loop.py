# SPDX-License-Identifier: Apache-2.0
"""The loop around a training function: synchronize, train, and meet again when the world changes."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ringtune.session.session import SESSION
from ringtune.system.counts import counted

from .interrupts import HostsUpdatedInterrupt, describe, is_loss, is_timeout, reason_of
from .membership import WorldMembership
from .states import State

Result = TypeVar("Result")

HOW_TO_START = (
    "this job cannot go on without its lost rank, for its launcher makes no further meeting; start it by `ringtune run "
    "--min-np N --max-np M` to let the other ranks restore the last commit and go on"
)


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Let a training function survive lost ranks and take in new ones.

    The function gets a state as its first argument. Before each call all ranks have the same state. When a rank is
    lost, the others restore their last commit, meet again and call the function again. When workers come or leave, they
    meet again at a commit, and keep the training's progress. Any other exception passes.

    Args:
        func: Training function; it goes on from the progress in its state.

    Raises:
        EngineError: If the world is lost and the launcher makes no further meeting.
    """
    return elastic(func, WorldMembership())


def elastic(
    func: Callable[..., Result], membership: WorldMembership, is_loss: Callable[[BaseException], bool] = is_loss
) -> Callable[..., Result]:
    """Return a training function that `run` would return, for one way into the worlds.

    Args:
        func: Training function.
        membership: This process's way into one world after the other.
        is_loss: Returns whether an error means that the world is lost.
    """

    @functools.wraps(func)
    def train(state: State, *args: Any, **kwargs: Any) -> Result:
        state.attach(membership.has_update)
        membership.join()
        membership.set_unfinished(True)
        is_reset = False
        while True:
            try:
                with _last_words(state, membership, is_loss):
                    if is_reset:
                        state.on_reset()
                    state.sync()
                    state.begin_attempt()
                    result = func(state, *args, **kwargs)
            except HostsUpdatedInterrupt:
                is_lost, reason = False, "workers come or leave"
            except Exception as error:
                if not is_loss(error):
                    raise
                if not membership.is_elastic:
                    _add_note(error, HOW_TO_START)
                    raise
                is_lost, reason = True, reason_of(error)
                if is_timeout(error):
                    membership.hurry()
            else:
                membership.set_unfinished(False)
                return result
            # After the except clauses, so that no traceback keeps buffers and graphs of the lost step alive.
            _meet_again(state, membership, reason, is_lost=is_lost)
            is_reset = True

    return train


@contextmanager
def _last_words(state: State, membership: WorldMembership, is_loss: Callable[[BaseException], bool]) -> Iterator[None]:
    """Report an error that ends this worker to the launcher, with the training's progress."""
    try:
        yield
    except HostsUpdatedInterrupt:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) or not is_loss(error):
            membership.note_progress(state.progress_at_commit(), describe(error) + state.counters_in_words())
        raise


def _add_note(error: Exception, text: str) -> None:
    """Add a line to an error's traceback, from Python 3.11 on."""
    if hasattr(error, "add_note"):
        error.add_note(text)


def _meet_again(state: State, membership: WorldMembership, reason: str, *, is_lost: bool) -> None:
    """Leave the world, restore the last commit if it was lost, and join the next world."""
    begin_s = time.monotonic()
    old = SESSION.require()
    membership.leave()
    if is_lost:
        state.restore()
    membership.note_progress(state.progress_at_commit())
    membership.join()
    world = SESSION.require()
    if world.rank == 0:
        took_s = time.monotonic() - begin_s
        kept = "the latest step"
        if is_lost:
            kept = "the last commit" if state.has_commit else "the beginning, for nothing was committed,"
        tuned = "; the tuner ends its run and begins one for this world" if world.settings.autotune else ""
        world.console.warning(
            f"{counted(world.size, 'rank')} instead of {old.size}: training goes on from {kept} after {took_s:.1f} s"
            f"{tuned}: {reason}"
        )
