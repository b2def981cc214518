# SPDX-License-Identifier: Apache-2.0
"""Throughput that a job loses beside a service that is black-holed, slow, lying, or absent.

Start it by `python -m benchmarks.service.bad_services`. A job of two ranks trains in blocks that take turns, beside the
service and without it; the ratios are of neighbouring blocks of one launch. The row of `none` has no service in either
block: the scatter of the ratio itself.
"""

import argparse
import random
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from statistics import median

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ringtune.tuner.statistics.paired_test import Pair, speedup_interval

from .engine_jobs.launching import launched

PROGRAM = "benchmarks.service.ranks.blocks"
RANKS = 2
NONE, NOT_THERE = "none", "not there"
CONFIDENCE = 0.95
SLOW_S = 0.5
"""Seconds between two bytes of a slow reply."""
Answer = Callable[[socket.socket, threading.Event], None]


def hole(_connection: socket.socket, ended: threading.Event) -> None:
    """Take all bytes and never answer."""
    ended.wait()


def slow(connection: socket.socket, ended: threading.Event) -> None:
    """Answer a byte at a time."""
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + b"{" * 1000:
        if ended.wait(SLOW_S):
            return
        connection.sendall(bytes([byte]))


def lying(connection: socket.socket, _ended: threading.Event) -> None:
    """Answer at once, with garbage."""
    rng = random.Random()  # noqa: S311  (noise, no secret)
    connection.recv(1 << 16)
    body = rng.choice([rng.randbytes(4096), b'{"config": {"fusion_bytes": -1}, "source": "exact"}', b"[" * 100_000])
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


ANSWERS: Mapping[str, Answer] = {"black-holed": hole, "slow": slow, "lying": lying}
WAYS = (NONE, *ANSWERS, NOT_THERE)


@contextmanager
def bad_service(answer: Answer) -> Iterator[str]:
    """Yield the URL of a service with such answers."""
    ended = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_answered, args=(connection, answer, ended), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)


def _answered(connection: socket.socket, answer: Answer, ended: threading.Event) -> None:
    with closing(connection):
        try:
            answer(connection, ended)
        except OSError:
            return  # the job has given up


@contextmanager
def service_of(way: str) -> Iterator[list[str]]:
    """Yield the URL of a service of a kind, or an empty list without one."""
    if way == NONE:
        yield []
    elif way == NOT_THERE:
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            port = listener.getsockname()[1]
        yield [f"http://127.0.0.1:{port}"]
    else:
        with bad_service(ANSWERS[way]) as url:
            yield [url]


def measure(way: str, pairs: int, block_s: float) -> list[tuple[float, float]]:
    """Return the seconds per step of a job's blocks, in pairs: without a service, and beside one of a kind."""
    with tempfile.TemporaryDirectory(prefix="ringtune-bench-") as folder, service_of(way) as url:
        found = launched(RANKS, PROGRAM, (folder, str(pairs), str(block_s), *url), {})
    return [(1 / alone, 1 / beside) for beside, alone in found["steps_per_s"]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="pairs of blocks for each kind of service")
    parser.add_argument("--block-seconds", type=float, default=6.0)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    table = Table("service", "steps/s", f"beside none ({CONFIDENCE:.0%} interval)", "smallest to largest of the pairs")
    for way in track(arguments.only, description="services", console=Console(stderr=True), transient=True):
        pairs = measure(way, arguments.pairs, arguments.block_seconds)
        interval = speedup_interval([Pair(*pair) for pair in pairs], confidence=CONFIDENCE)
        ratios = [alone / beside - 1 for alone, beside in pairs]
        change = f"{interval.speedup:+.2%} ({interval.low:+.2%} to {interval.high:+.2%})"
        per_s = median(1 / beside for _, beside in pairs)
        table.add_row(way, f"{per_s:.1f}", change, f"{min(ratios):+.2%} to {max(ratios):+.2%}")
    Console().print(table)


if __name__ == "__main__":
    main()
