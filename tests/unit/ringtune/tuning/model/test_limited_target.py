# SPDX-License-Identifier: Apache-2.0
"""A live model whose memory is limited: a config that needs too much is void, before or after its trial."""

import threading

import pytest

from ringtune.fsdp.settings import FsdpSettings, fsdp_space
from ringtune.tuner import VoidReason, Window, WindowSpec
from ringtune.tuning.job.windows import StepEnd, WindowBuilder
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.live_model import Words
from ringtune.tuning.model.target import LimitedTarget

BASELINE, SMALL, LARGE = FsdpSettings(), FsdpSettings(1, 0, 0), FsdpSettings(4, 0, 0)
ROOM_BYTES = 250


def extra_bytes(words: Words) -> int:
    """Return 100 bytes for each module that is kept."""
    return 100 * words[0]


@pytest.fixture
def exchange() -> Exchange:
    """Return the exchange of a job whose ranks have some room."""
    made = Exchange(BASELINE.words())
    made.memory.note(2, BASELINE.words(), ROOM_BYTES)
    return made


@pytest.fixture
def target(exchange: Exchange) -> LimitedTarget:
    """Return the target."""
    space = fsdp_space(BASELINE, reshardable=4, prefetchable=4, is_fixed=False)
    return LimitedTarget(
        "torch-fsdp2",
        exchange,
        space,
        BASELINE.to_config(),
        WindowBuilder(1_000, 1),
        words_of=lambda config: FsdpSettings.from_config(config).words(),
        extra_bytes=extra_bytes,
    )


def window_of(target: LimitedTarget, exchange: Exchange, settings: FsdpSettings, *, checked_step: int) -> Window:
    """Return a window of four steps under settings; more steps follow, and the memory is known up to one of them."""
    epoch = target.apply(settings.to_config())

    def train() -> None:
        for step in range(12):
            if step == 9:
                exchange.memory.note(checked_step, settings.words(), ROOM_BYTES)
            exchange.put(StepEnd(step, float(step), epoch))

    threading.Timer(0.05, train).start()
    return next(target.windows(WindowSpec(epoch, 1, 4, 0.0)))


def test_a_config_that_fits_is_measured_and_its_memory_known(target: LimitedTarget, exchange: Exchange) -> None:
    """The window is given out once the peak of its last step has come from all ranks."""
    window = window_of(target, exchange, SMALL, checked_step=8)

    assert window.void_reason is None
    assert 4 == len(window.step_ms)
    assert exchange.memory.checked_step >= (window.last_step or 0)


def test_a_config_that_cannot_fit_is_never_asked_for(target: LimitedTarget, exchange: Exchange) -> None:
    """Its window is void at once, without a step."""
    epoch = target.apply(LARGE.to_config())

    window = next(target.windows(WindowSpec(epoch, 1, 4, 0.0)))

    assert VoidReason.MEMORY_LIMIT is window.void_reason
    assert () == window.step_ms
    assert BASELINE.words() == exchange.wish.words


def test_a_config_that_did_not_fit_is_not_asked_for_again(target: LimitedTarget, exchange: Exchange) -> None:
    """The ranks have left it while it was measured."""
    epoch = target.apply(SMALL.to_config())
    exchange.memory.refuse(epoch)
    threading.Timer(0.05, exchange.put, (StepEnd(1, 1.0, epoch),)).start()
    first = next(target.windows(WindowSpec(epoch, 1, 4, 0.0)))
    target.apply(BASELINE.to_config())

    again = target.apply(SMALL.to_config())

    assert VoidReason.MEMORY_LIMIT is first.void_reason
    assert BASELINE.words() == exchange.wish.words
    assert not target.fits(SMALL.to_config())
    assert VoidReason.MEMORY_LIMIT is next(target.windows(WindowSpec(again, 1, 4, 0.0))).void_reason


def test_the_baseline_always_fits(target: LimitedTarget, exchange: Exchange) -> None:
    """The job runs it without a tuner."""
    exchange.memory.note(4, BASELINE.words(), -1)

    assert target.fits(BASELINE.to_config())
    assert not target.fits(SMALL.to_config())
