# SPDX-License-Identifier: Apache-2.0
"""The exchange between the tuning thread and the training thread."""

import threading
from collections.abc import Iterable

import pytest

from ringtune.ddp.buckets import BucketSizes, bucket_space
from ringtune.tuner import Config, TargetClosed, WindowSpec
from ringtune.tuning.job.windows import StepEnd, WindowBuilder
from ringtune.tuning.model.exchange import MOST_UNREAD_STEPS, Exchange, Wish
from ringtune.tuning.model.live_model import Words
from ringtune.tuning.model.target import LiveTarget

FIRST, OTHER = BucketSizes(1000, 100), BucketSizes(2000, 100)
SPEC = WindowSpec(epoch=0, settle_steps=1, steps=2, limit_ms=0.0)


def words_of(config: Config) -> Words:
    """Return the settings that a config stands for."""
    return BucketSizes.from_config(config).words()


def make_target() -> tuple[LiveTarget, Exchange]:
    """Return a target and the exchange that it stands before."""
    exchange = Exchange(FIRST.words())
    space = bucket_space(FIRST, 10_000, is_fixed=False)
    builder = WindowBuilder(10_000, 1)
    return LiveTarget("torch-ddp", exchange, space, FIRST.to_config(), builder, words_of=words_of), exchange


def train(exchange: Exchange, steps: Iterable[int]) -> None:
    """Hand over steps of a second each."""
    for step in steps:
        exchange.put(StepEnd(step, float(step), 0))


def test_a_config_becomes_a_wish_with_a_new_epoch() -> None:
    """A config that is wished for already, or in force, keeps its epoch."""
    target, exchange = make_target()

    epochs = [target.apply(sizes.to_config()) for sizes in (FIRST, OTHER, OTHER, FIRST)]

    assert [0, 1, 1, 2] == epochs
    assert Wish(2, FIRST.words()) == exchange.wish


def test_the_last_wish_keeps_its_sizes() -> None:
    """The end leaves the buckets as they are."""
    target, exchange = make_target()
    target.apply(OTHER.to_config())

    exchange.end()

    assert Wish(1, OTHER.words(), is_last=True) == exchange.wish


def test_a_decision_lasts_until_something_else_is_asked_for() -> None:
    """A decision holds until another request; a request for the config in force is no trial."""
    target, exchange = make_target()

    exchange.settle()
    target.apply(FIRST.to_config())
    kept = exchange.wish
    target.apply(OTHER.to_config())

    assert Wish(0, FIRST.words(), is_decision=True) == kept
    assert Wish(1, OTHER.words()) == exchange.wish


def test_only_the_first_window_settles() -> None:
    """The settling steps belong to the switch."""
    target, exchange = make_target()
    threading.Timer(0.05, train, (exchange, range(7))).start()
    windows = target.windows(SPEC)

    first, second = next(windows), next(windows)

    assert (2, 2) == (len(first.step_ms), len(second.step_ms))
    assert (3, 5) == (first.last_step, second.last_step)
    exchange.closing.set()
    with pytest.raises(TargetClosed):
        next(windows)


def test_the_end_of_the_job_ends_a_wait_that_has_begun() -> None:
    """Steps are no longer marked; the tuning thread notices."""
    target, exchange = make_target()
    threading.Timer(0.05, exchange.closing.set).start()

    with pytest.raises(TargetClosed):
        next(target.windows(SPEC))
    with pytest.raises(TargetClosed):
        target.apply(OTHER.to_config())


def test_steps_that_nobody_read_are_in_no_window() -> None:
    """Unread steps may be minutes old, and from another state of the machine."""
    target, exchange = make_target()
    for step in range(7):
        exchange.put(StepEnd(step, 0.001 * step, 0))
    threading.Timer(0.05, train, (exchange, range(90, 97))).start()

    window = next(target.windows(SPEC))

    assert (1000.0, 1000.0) == window.step_ms


def test_steps_that_nobody_reads_do_not_pile_up() -> None:
    """Training never waits for the tuner."""
    _, exchange = make_target()

    for step in range(MOST_UNREAD_STEPS + 10):
        exchange.put(StepEnd(step, 0.0, 0))

    assert 0 == exchange.next_end().step
    assert MOST_UNREAD_STEPS - 1 == exchange._ends.qsize()
