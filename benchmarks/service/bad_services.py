# SPDX-License-Identifier: Apache-2.0
"""What a job's throughput loses beside a service that is black-holed, slow, lying, or not there.

Start it by `python -m benchmarks.service.bad_services`. In each round the job of two ranks is launched once beside each
service and once without one, in an order drawn anew; the ratios are of launches of one round.
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

from .launching import launched

NONE = "none"
SLOW_S = 0.5
"""Between two bytes of a slow reply."""
Answer = Callable[[socket.socket, threading.Event], None]


def hole(_connection: socket.socket, ended: threading.Event) -> None:
    """Take what comes and never answer."""
    ended.wait()


def slow(connection: socket.socket, ended: threading.Event) -> None:
    """Answer a byte at a time."""
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + b"{" * 1000:
        if ended.wait(SLOW_S):
            return
        connection.sendall(bytes([byte]))


def lying(connection: socket.socket, _ended: threading.Event) -> None:
    """Answer at once, and never what was asked for."""
    rng = random.Random()  # noqa: S311  (noise, no secret)
    connection.recv(1 << 16)
    body = rng.choice([rng.randbytes(4096), b'{"config": {"fusion_bytes": -1}, "source": "exact"}', b"[" * 100_000])
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


ANSWERS: Mapping[str, Answer] = {"black-holed": hole, "slow": slow, "lying": lying}


@contextmanager
def bad_service(answer: Answer) -> Iterator[str]:
    """Yield the URL of a service that answers so."""
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


def measure(way: str, steps: int) -> float:
    """Return the steps per second of a job beside a service of a kind."""
    if way == NONE:
        return float(launched(2, steps, {})["steps_per_s"])
    with tempfile.TemporaryDirectory(prefix="ringtune-bench-") as folder:
        if way == "not there":
            with closing(socket.create_server(("127.0.0.1", 0))) as listener:
                url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            return float(launched(2, steps, {}, url, folder)["steps_per_s"])
        with bad_service(ANSWERS[way]) as url:
            return float(launched(2, steps, {}, url, folder)["steps_per_s"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--only", nargs="+", choices=(*ANSWERS, "not there"), default=[*ANSWERS, "not there"])
    arguments = parser.parse_args()
    ways = [NONE, *arguments.only]
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    measured: dict[str, list[float]] = {way: [] for way in ways}
    for _ in track(range(arguments.rounds), description="rounds", console=Console(stderr=True), transient=True):
        for way in order.sample(ways, len(ways)):
            measured[way].append(measure(way, arguments.steps))
    table = Table("service", "steps/s", "beside none, %", "smallest to largest of the rounds, %")
    for way in ways:
        ratios = [100 * (found / alone - 1) for found, alone in zip(measured[way], measured[NONE], strict=True)]
        table.add_row(
            way, f"{median(measured[way]):.1f}", f"{median(ratios):+.2f}", f"{min(ratios):+.2f} to {max(ratios):+.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
