# SPDX-License-Identifier: Apache-2.0
"""Tests of the breaker: later and later, at random, and closed again by one success."""

from ringtune.tuning.service_link.breaker import LONGEST_PAUSE_S, OPENS_AFTER, Breaker


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def test_pauses_double_and_end_at_a_minute() -> None:
    """The random part is at its upper end."""
    breaker = Breaker(Clock(), share=lambda: 1.0)
    pauses_s = []
    for _ in range(9):
        breaker.failed()
        pauses_s.append(breaker.wait_s)

    assert [1, 2, 4, 8, 16, 32, 60, 60, 60] == pauses_s


def test_chance_takes_up_to_a_half_of_the_pause() -> None:
    """The random pauses keep a thousand jobs from coming back at once."""
    earliest, latest = Breaker(Clock(), share=lambda: 0.0), Breaker(Clock(), share=lambda: 0.999)
    for _ in range(20):
        earliest.failed()
        latest.failed()

    assert LONGEST_PAUSE_S / 2 == earliest.wait_s
    assert 0.99 * LONGEST_PAUSE_S < latest.wait_s < LONGEST_PAUSE_S


def test_the_service_s_own_wish_is_granted() -> None:
    """Retry-After is the least."""
    breaker = Breaker(Clock(), share=lambda: 1.0)

    breaker.failed(retry_after_s=300.0)

    assert 300.0 == breaker.wait_s


def test_it_opens_after_some_failures_lets_one_through_and_closes() -> None:
    """Open means that an attempt before the pause is over would be in vain."""
    clock = Clock()
    breaker = Breaker(clock, share=lambda: 1.0)
    for _ in range(OPENS_AFTER - 1):
        breaker.failed()
    assert not breaker.is_open

    breaker.failed()
    states = [breaker.is_open]
    clock.now_s += 4.0
    states.append(breaker.is_open)
    assert [True, False] == states

    breaker.succeeded()
    assert 0.0 == breaker.wait_s
    breaker.failed()
    assert 1.0 == breaker.wait_s
