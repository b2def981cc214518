# SPDX-License-Identifier: Apache-2.0
"""Messages of ranks that join, and reasons for which rank 0 refuses one: pure functions over plain values."""

import os
from collections.abc import Iterable
from typing import Any

from ringtune.errors import ConfigError, RingtuneError, error_from_name
from ringtune.system.printable import printable_lines, quoted, shown
from ringtune.version import __version__

from .channel import Message
from .place import Offer, Place


def describe_failure(error: RingtuneError) -> dict[str, str]:
    """Return an error as message fields; `failure_from` is the inverse."""
    return {"error": type(error).__name__, "text": str(error)}


def failure_from(message: Message) -> RingtuneError:
    """Return the error that a message describes, whatever the message holds."""
    text = message.get("text")
    return error_from_name(shown(message.get("error")), printable_lines(text if isinstance(text, str) else shown(text)))


def failure_of(rank: int, message: Message) -> RingtuneError:
    """Return the error that a rank described, with the rank's name before its text."""
    error = failure_from(message)
    return error_from_name(type(error).__name__, f"rank {rank}: {error}")


def join_message(place: Place, offer: Offer, host: str) -> Message:
    """Return a rank's description of itself, sent once both sides have proved that they hold the job key."""
    return {
        "world_size": place.world_size,
        "version": __version__,
        "host": host,
        "pid": os.getpid(),
        "given": dict(offer.given),
        "facts": dict(offer.facts),
        "failure": None if offer.failure is None else describe_failure(offer.failure),
    }


def find_conflict(place: Place, offer: Offer, rank: int, join: Message) -> RingtuneError | None:
    """Return the reason why rank 0 cannot start with a rank's description of itself, or None.

    Args:
        place: Rank 0's place.
        offer: Rank 0's offer; its effective values hold for all.
        rank: The rank that joined.
        join: Its message, authenticated but not validated.
    """
    failure = join.get("failure")
    if isinstance(failure, dict):
        return failure_of(rank, failure)
    expected = (
        ("world_size", place.world_size, "start all ranks with one world size"),
        ("version", __version__, "install one version of ringtune for all ranks"),
    )
    for key, ours, advice in expected:
        if join.get(key) != ours:
            return ConfigError(f"rank {rank} has {key} {quoted(join.get(key))} but rank 0 has {ours!r}; {advice}")
    if not isinstance(join.get("host"), str) or not isinstance(join.get("facts"), dict):
        return ConfigError(f"rank {rank} did not say where it runs; install one version of ringtune for all ranks")
    return _settings_conflict(offer, rank, join.get("given"))


def _settings_conflict(offer: Offer, rank: int, given: Any) -> ConfigError | None:
    if not isinstance(given, dict):
        return ConfigError(
            f"rank {rank} sent settings of type {type(given).__name__}; install one version for all ranks"
        )
    for variable, value in sorted(given.items()):
        ours = offer.effective.get(variable)
        if value != ours:
            origin = "sets" if variable in offer.given else "has, by default,"
            return ConfigError(
                f"rank {rank} sets {variable}={quoted(value)} but rank 0 {origin} {ours!r}; rank 0's settings hold for "
                f"all ranks: set {variable} alike on every rank, or on rank 0 alone"
            )
    return None


def missing_ranks(world_size: int, present: Iterable[int]) -> list[int]:
    """Return the ranks other than 0 that are not present, ascending."""
    return sorted(set(range(1, world_size)) - set(present))
