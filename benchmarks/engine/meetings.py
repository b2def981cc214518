# SPDX-License-Identifier: Apache-2.0
"""Time the ranks' meeting by each kind of `RINGTUNE_RENDEZVOUS`: the job's first, and one after `shutdown()`.

Start it by `python -m benchmarks.engine.meetings`. Each round forks ranks from this process for each kind, in a random
order; they have imported everything, so that the meeting alone is timed: from the first rank's call of `init()` to the
last one's return. All ranks are on this machine; the launcher's address book and the rendezvous server are served by
this process.
"""

import argparse
import json
import os
import random
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from statistics import median
from typing import Protocol

from rich.console import Console
from rich.table import Table

from ringtune import arrays
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, paired_ratio
from ringtune.meeting.rendezvous.address import LOOPBACK
from ringtune.meeting.rendezvous.address_book import AddressBook
from ringtune.meeting.rendezvous.roster import FixedRoster
from ringtune.meeting.rendezvous.server import RendezvousServer

RANKS = (2, 4, 8)
MEETINGS = ("first", "again")
LIMIT_S = 60.0
LOOK_MS = 20.0
BASELINE = "book"
KEY_BYTES = 32


class Service(Protocol):
    """A server of meetings; the address book and the rendezvous server are some."""

    address: str

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to serve."""

    def serve_ready(self) -> None:
        """Serve the callers that are ready."""

    def close(self) -> None:
        """Close every socket."""


class Nobody:
    """Service of ranks that need none: they know rank 0's address beforehand."""

    def __init__(self, address: str) -> None:
        """Hold the address, and a descriptor that is never readable."""
        self.address = address
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._read

    def serve_ready(self) -> None:
        """Serve no caller, as none comes."""

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._read)
        os.close(self._write)


def free_address() -> str:
    """Return a TCP address on loopback that was free a moment ago."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return f"tcp://{LOOPBACK}:{listener.getsockname()[1]}"


KINDS: Mapping[str, tuple[str, Callable[[bytes, int], Service]]] = {
    "unix": ("`ringtune run` on one machine", lambda _key, _ranks: Nobody(f"unix:@meetings-{secrets.token_hex(8)}")),
    "tcp": ("an address of rank 0, known beforehand", lambda _key, _ranks: Nobody(free_address())),
    BASELINE: ("`ringtune run -H`: the launcher's address book", lambda key, _ranks: AddressBook(key, LOOPBACK)),
    "join": (
        "a rendezvous server, which gives ranks",
        lambda key, ranks: RendezvousServer(key, LOOPBACK, FixedRoster(ranks)),
    ),
}
"""Kinds of addresses: the user of each, and the maker of its service from the job key and the number of ranks."""


def be_a_rank(variables: Mapping[str, str], start: int, answer: int) -> None:
    """Meet twice, once the pipe `start` is closed, and write when each meeting began and ended; never returns."""
    code = 1
    try:
        os.environ.update(variables)
        os.read(start, 1)
        times = []
        for _ in MEETINGS:
            begin_s = time.monotonic()
            arrays.init()
            times.append((begin_s, time.monotonic()))
            arrays.barrier()  # all have met before one leaves
            arrays.shutdown()
        os.write(answer, json.dumps(times).encode())
        code = 0
    finally:
        os._exit(code)


@contextmanager
def forked(places: Sequence[Mapping[str, str]]) -> Iterator[list[int]]:
    """Fork a rank for each set of variables, start them together, and return the pipes that they answer on."""
    start, starter = os.pipe()
    answers, pids = [], []
    for variables in places:
        answer, writer = os.pipe()
        if not (pid := os.fork()):
            os.close(starter)
            be_a_rank(variables, start, writer)
        os.close(writer)
        answers.append(answer)
        pids.append(pid)
    os.close(start)
    os.close(starter)
    try:
        yield answers
    finally:
        for answer in answers:
            os.close(answer)
        for pid in pids:
            os.waitpid(pid, 0)


def meet(kind: str, ranks: int) -> list[float]:
    """Return how long the meetings of a job took, milliseconds."""
    key = secrets.token_bytes(KEY_BYTES)
    with closing(KINDS[kind][1](key, ranks)) as service:
        common = {
            "RINGTUNE_RENDEZVOUS": service.address,
            "RINGTUNE_JOB_KEY": key.hex(),
            "RINGTUNE_TIMEOUT_S": f"{LIMIT_S:.0f}",
            "RINGTUNE_ALGORITHM_TABLE": "default",
            "OMP_NUM_THREADS": "1",
        }
        own = [{"RINGTUNE_RANK": str(rank), "RINGTUNE_WORLD_SIZE": str(ranks)} for rank in range(ranks)]
        with forked([common if kind == "join" else {**common, **place} for place in own]) as answers:
            times = [json.loads(text) for text in _served(service, answers)]
    return [
        1e3 * (max(rank[meeting][1] for rank in times) - min(rank[meeting][0] for rank in times))
        for meeting in range(len(MEETINGS))
    ]


def _served(service: Service, answers: Sequence[int]) -> list[bytes]:
    """Serve meetings until all ranks have answered; return the answers."""
    texts: dict[int, bytes] = {}
    poll = select.poll()
    for descriptor in (service.fileno(), *answers):
        poll.register(descriptor, select.POLLIN)
    end_s = time.monotonic() + LIMIT_S
    while len(texts) < len(answers):
        for descriptor, _ in poll.poll(LOOK_MS):
            if descriptor in answers:
                texts[descriptor] = os.read(descriptor, 1 << 16)
                poll.unregister(descriptor)
        service.serve_ready()
        if time.monotonic() > end_s or not all(texts.values()):
            raise SystemExit(f"a rank did not meet within {LIMIT_S:.0f} s; its error is above")
    return [texts[answer] for answer in answers]


def measure(rounds: int) -> dict[tuple[int, str], list[list[float]]]:
    """Return the times of both meetings of each job, by number of ranks and kind."""
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    cases = [(ranks, kind) for ranks in RANKS for kind in KINDS]
    measured: dict[tuple[int, str], list[list[float]]] = {case: [] for case in cases}
    for _ in range(rounds):
        for ranks, kind in order.sample(cases, len(cases)):
            measured[ranks, kind].append(meet(kind, ranks))
    return measured


def cells(own: Sequence[float], baseline: Sequence[float], *, is_baseline: bool) -> list[str]:
    """Return a meeting's cells: the median, the ratio to the baseline, and its interval."""
    if is_baseline:
        return [f"{median(own):.1f}", "1", ""]
    ratio = paired_ratio(own, baseline)
    return [f"{median(own):.1f}", f"{ratio.median:.2f}", str(ratio)]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Time meetings by each kind of rendezvous.")
    parser.add_argument("--rounds", type=int, default=40, help=f"jobs of each kind, at least {MIN_PAIRS} (default 40)")
    arguments = parser.parse_args()
    if arguments.rounds < MIN_PAIRS:
        parser.error(f"--rounds {arguments.rounds} gives no interval; allowed: at least {MIN_PAIRS}")
    table = Table("ranks", "address", *(name for meeting in MEETINGS for name in (f"{meeting}, ms", "ratio", "95 %")))
    measured = measure(arguments.rounds)
    for (ranks, kind), jobs in measured.items():
        columns = zip(zip(*jobs, strict=True), zip(*measured[ranks, BASELINE], strict=True), strict=True)
        row = [cell for own, other in columns for cell in cells(own, other, is_baseline=kind == BASELINE)]
        table.add_row(str(ranks), f"{kind}: {KINDS[kind][0]}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
