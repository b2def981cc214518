# SPDX-License-Identifier: Apache-2.0
"""The command and the table of a campaign of random histories: per kind of event, how often, failures, recoveries.

A recovery is the longest time without a step of rank 0, from an event until the next one.
"""

import argparse
import itertools
import json
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.integration.plain_rank import say
from tests.termination import unwind_at_sigterm

MOMENT = struct.Struct("d")  # seconds of the monotonic clock, in the file `times`


@dataclass(frozen=True)
class Struck:
    """An event that took place.

    Attributes:
        kind: Its kind.
        at_s: Moment of the monotonic clock.
    """

    kind: str
    at_s: float


@dataclass(frozen=True)
class Played:
    """A history that was run.

    Attributes:
        seed: Its seed.
        events: Kind and recovery, in seconds, of each event that took place.
        error: Last line of the failure; empty for a success.
    """

    seed: int
    events: tuple[tuple[str, float], ...]
    error: str = ""


Play = Callable[[int, Path, list[Struck]], str]


def recoveries(struck: Sequence[Struck], times: Sequence[float]) -> tuple[tuple[str, float], ...]:
    """Return the kind and the recovery of each event.

    Args:
        struck: Events, in their order.
        times: Moments at which rank 0 has ended a step.
    """
    pauses = list(itertools.pairwise(times))
    ends = [*(event.at_s for event in struck[1:]), float("inf")]
    return tuple(
        (event.kind, max((min(end, until_s) - max(begin, event.at_s) for begin, end in pauses), default=0.0))
        for event, until_s in zip(struck, ends, strict=False)  # without an event there is an end all the same
    )


def table(played: Iterable[Played]) -> str:
    """Return a table with a row for each kind of event, and a last line with the totals."""
    histories = list(played)
    events = [(kind, took, bool(history.error)) for history in histories for kind, took in history.events]
    lines = [f"{'event':14s} {'times':>5s} {'in failed':>9s} {'recovery: median s':>19s} {'longest s':>9s}"]
    for kind in sorted({kind for kind, _, _ in events}):
        own = [(took, has_failed) for name, took, has_failed in events if name == kind]
        took = [seconds for seconds, _ in own]
        failed = sum(has_failed for _, has_failed in own)
        lines.append(f"{kind:14s} {len(own):5d} {failed:9d} {median(took):19.2f} {max(took):9.2f}")
    return "\n".join([*lines, f"{len(histories)} histories, {sum(bool(one.error) for one in histories)} failed"])


def run_histories(about: str | None, play: Play, *, count: int) -> int:
    """Run histories as the command line says, print a line for each and the table; return 1 if one failed.

    Args:
        about: Description of the command.
        play: Runs the history of a seed in a folder, adds the events that take place to a list, and returns its line.
        count: Number of histories by default.
    """
    unwind_at_sigterm()
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count, help=f"number of histories; {count} by default")
    parser.add_argument("--first", type=int, default=0, help="first seed; 0 by default")
    parser.add_argument(
        "--results", type=Path, help="file to which each history is added, and whose histories the table counts too"
    )
    given = parser.parse_args()
    earlier = _read(given.results) if given.results and given.results.exists() else []
    played = []
    for seed in range(given.first, given.first + given.count):
        played.append(_played(seed, play))
        if given.results:
            with given.results.open("a", encoding="utf-8") as results:
                results.write(f"{json.dumps(asdict(played[-1]))}\n")
    say(table([*earlier, *played]))
    return int(any(history.error for history in played))


def _played(seed: int, play: Play) -> Played:
    struck: list[Struck] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            line, error = play(seed, folder, struck), ""
        except AssertionError as failure:
            line, error = f"FAILED\n{''.join(traceback.format_exception(failure))}", f"{failure}".partition("\n")[0]
            error = error or "no message"
        say(f"{seed:4d}  {line}")
        return Played(seed, recoveries(struck, _times(folder)), error)


def _times(folder: Path) -> list[float]:
    with suppress(FileNotFoundError):
        return [moment for (moment,) in MOMENT.iter_unpack((folder / "times").read_bytes())]
    return []


def _read(results: Path) -> list[Played]:
    found: list[Mapping[str, Any]] = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return [Played(one["seed"], tuple((kind, took) for kind, took in one["events"]), one["error"]) for one in found]
