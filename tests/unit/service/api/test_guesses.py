# SPDX-License-Identifier: Apache-2.0
"""Guesses of tokens are slowed, and no other caller is."""

import pytest
from structlog.testing import capture_logs

from ringtune.service.api.guesses import BURST, PER_S, TOLD_EVERY_S, Guesses
from ringtune.service.errors import RateLimited

HERE, THERE = "10.0.0.1", "10.0.0.2"
VALID, NEW = b"Bearer valid", b"Bearer new"


class Clock:
    """Seconds that pass when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def guessed(guesses: Guesses, count: int, begin: int = 0) -> int:
    """Send so many different wrong tokens from one address; return how many were looked up."""
    looked_up = 0
    for number in range(begin, begin + count):
        try:
            guesses.check(HERE, b"Bearer %d" % number)
        except RateLimited:
            continue
        looked_up += 1
        guesses.failed(HERE, b"Bearer %d" % number)
    return looked_up


def test_an_address_that_guesses_has_to_wait() -> None:
    """An address has its burst, then its rate, and is told when to come again."""
    clock = Clock()
    guesses = Guesses(clock)

    first = guessed(guesses, 200)
    with pytest.raises(RateLimited) as refusal:
        guesses.check(HERE, NEW)
    clock.now_s = 3 / PER_S

    assert (BURST, 3) == (first, sum(guessed(guesses, 1, begin=1000 + number) for number in range(200)))
    assert 1 / PER_S == refusal.value.retry_after_s


def test_tokens_valid_there_and_callers_elsewhere_go_on() -> None:
    """A colleague's mistake, or an attack, keeps no job from its service."""
    guesses = Guesses(Clock())
    guesses.succeeded(HERE, VALID)
    guessed(guesses, 200)

    guesses.check(HERE, VALID)
    guesses.check(THERE, NEW)
    with pytest.raises(RateLimited):
        guesses.check(HERE, NEW)


def test_the_same_wrong_token_is_one_guess() -> None:
    """A job with a token that was revoked keeps no other out."""
    guesses = Guesses(Clock())

    for _ in range(10 * BURST):
        guesses.check(HERE, NEW)
        guesses.failed(HERE, NEW)

    guesses.check(HERE, VALID)


def test_the_log_says_so_now_and_then() -> None:
    """One line at once, and one a minute with the count; without the sent tokens."""
    clock = Clock()
    guesses = Guesses(clock)

    with capture_logs() as log:
        guessed(guesses, 200)
        clock.now_s = TOLD_EVERY_S
        guessed(guesses, 200)

    assert [("tokens_guessed", HERE)] * 2 == [(line["event"], line["address"]) for line in log]
    assert [1, 200 - BURST] == [line["refused"] for line in log]
    assert "Bearer" not in str(log)
