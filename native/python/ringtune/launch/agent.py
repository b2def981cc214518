# SPDX-License-Identifier: Apache-2.0
"""Agent on every other host of a job: starts the host's ranks as it is ordered to, and ends with them.

`python -m ringtune.launch.agent`, started through the remote shell. Orders, the job key among them, come by standard
input and reports go by standard output (see `agent_protocol`). No process is left on the host when standard input
closes, when the launcher is silent for too long, or when the agent is asked to end: its ranks are killed first. When
the agent itself is killed, the kernel kills the ranks.
"""

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence

from ringtune.errors import ConfigError
from ringtune.system.console import STDERR_DESCRIPTOR
from ringtune.system.event_loop import EventLoop, is_writable, signals_in
from ringtune.system.standard_streams import occupy_standard_streams
from ringtune.system.tied_program import EXIT_CANNOT_START

from . import agent_protocol
from .agent_protocol import Message, OrderDecoder, ProtocolError
from .byte_sink import ByteSink
from .environment import HostPlace, rank_environment, worker_environment
from .local_ranks import READ_BYTES, LocalRanks
from .processes import RankCommand
from .rank_streams import STDERR, RankStreams

DRAIN_S = 1.0  # for what others write after a rank's end: one that left its group may hold a stream for ever
FLUSH_S = 600.0  # for reports: whoever reads the launcher's output may pause; a dead launcher's pipe is broken
REACH_LIMIT_S = 5.0
EXIT_ORDERED, EXIT_LOST = 0, 1


class Agent:
    """Executes the orders of one launcher. `run()` is called once, from the main thread."""

    def __init__(self, orders: int, reports: int) -> None:
        """Make the agent of a host.

        Args:
            orders: Descriptor to read orders from.
            reports: Descriptor to write reports to; the agent alone may write to it.
        """
        self._loop = EventLoop(takes_files=True)
        self._orders = orders
        self._decoder = OrderDecoder()
        self._reports = ByteSink(self._loop, reports)
        self._ranks = LocalRanks(self._loop, self)
        self._heard_s = time.monotonic()
        self._beat_s = agent_protocol.BEAT_S
        self._silence_s = agent_protocol.SILENCE_S
        self._next_beat_s = self._heard_s
        self._is_launcher_paused = False
        self._is_ending = False
        self._exit_code = EXIT_ORDERED

    def run(self) -> int:
        """Serve the launcher until it closes the connection; return the exit code."""
        self._loop.on_readable(self._orders, self._read_orders)
        self._reports.write(agent_protocol.MARK)
        with signals_in(self._loop, lambda _number: self._end(EXIT_LOST)):
            try:
                while not self._is_ending:
                    self._loop.turn(max(0.0, self._next_beat_s - time.monotonic()))
                    self._tend()
            finally:
                self._clear_up()
        return self._exit_code

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Pass on a rank's output."""
        kind = (agent_protocol.STDOUT, agent_protocol.STDERR)[stream]
        self._reports.write(agent_protocol.encode_output(kind, rank, data))

    def _tend(self) -> None:
        """Report exits, hold output back, and check the launcher's silence after each turn of the loop."""
        self._report_exits()
        self._ranks.set_paused(self._reports.is_clogged)
        now_s = time.monotonic()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + self._beat_s
            if not self._reports.pending_bytes:  # what waits there says as much
                self._say({"type": "beat"})
        if now_s - self._heard_s > self._silence_s and not self._is_launcher_paused:
            self._complain(f"the launcher was silent for {self._silence_s:.0f} s; the ranks here are ended")
            self._end(EXIT_LOST)

    def _read_orders(self) -> None:
        data = os.read(self._orders, READ_BYTES)
        self._heard_s = time.monotonic()
        self._is_launcher_paused = False
        if not data:
            self._loop.forget(self._orders)
            self._end(EXIT_ORDERED)
            return
        try:
            for order in self._decoder.feed(data):
                self._obey(order)
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            self._complain(f"the launcher's order cannot be understood: {error!r}")
            self._end(EXIT_LOST)

    def _obey(self, order: Message) -> None:
        if order["type"] == "check":
            self._beat_s, self._silence_s = float(order["beat_s"]), float(order["silence_s"])
            self._next_beat_s = time.monotonic()
            self._say({"type": "hello", **agent_protocol.identity(), "objection": _objection(order)})
        elif order["type"] == "start":
            self._start(order)
        elif order["type"] == "signal":
            ranks = order.get("ranks")
            self._ranks.signal(int(order["number"]), None if ranks is None else [int(rank) for rank in ranks])
        elif order["type"] == "release":
            self._ranks.release(int(order["rank"]))
        elif order["type"] == "resize":
            self._ranks.resize(RankStreams(**order["streams"]))
        elif order["type"] == "pause":
            self._is_launcher_paused = True

    def _start(self, order: Message) -> None:
        streams = RankStreams(**order["streams"])
        command = RankCommand(tuple(map(str, order["command"])), str(order["job_key"]), streams)
        ranks = [int(rank) for rank in order["ranks"]]
        try:
            self._ranks.start(command, _environments(order, ranks))
        except ConfigError as error:
            if "slots" not in order:
                self._say({"type": "failed", "text": str(error)})
                return
            self._report_missing([rank for rank in ranks if rank not in self._ranks.ranks], str(error))
        started = [rank for rank in ranks if rank in self._ranks.ranks]
        self._say({"type": "started", "ranks": started, "pids": [self._ranks.pid_of(rank) for rank in started]})

    def _report_missing(self, ranks: Sequence[int], text: str) -> None:
        """Report workers of an elastic job that could not be started; those that run go on."""
        for rank in ranks:
            self.take(rank, STDERR, f"ringtune host agent: {text}\n".encode("utf-8", "backslashreplace"))
            self._say({"type": "exit", "rank": rank, "code": EXIT_CANNOT_START, "signal": 0})

    def _report_exits(self) -> None:
        for ended in self._ranks.take_exits():
            fields = {"rank": ended.rank, "code": ended.code, "signal": ended.signal_number}
            self._say({"type": "exit", **fields})

    def _clear_up(self) -> None:
        """Kill the ranks that still run, pass on their last output, and report how they ended."""
        self._ranks.signal(signal.SIGKILL)
        self._report_exits()
        self._ranks.reap()
        self._ranks.set_paused(False)
        self._turn_until(lambda: self._ranks.is_drained, DRAIN_S)
        while self._ranks.have_last_words:  # a busy host may need longer for these
            self._loop.turn(None)
        self._ranks.close()
        self._turn_until(lambda: not self._reports.pending_bytes, FLUSH_S)

    def _turn_until(self, is_done: Callable[[], bool], limit_s: float) -> None:
        end_s = time.monotonic() + limit_s
        while not is_done() and time.monotonic() < end_s:
            self._loop.turn(max(0.0, end_s - time.monotonic()))

    def _end(self, exit_code: int) -> None:
        self._is_ending = True
        self._exit_code = self._exit_code or exit_code

    def _say(self, message: Message) -> None:
        self._reports.write(agent_protocol.encode_message(message))

    def _complain(self, text: str) -> None:
        """Leave a word for the remote shell, which shows it if it still can."""
        with contextlib.suppress(OSError):
            if is_writable(STDERR_DESCRIPTOR):  # a full pipe must not keep the ranks alive
                os.write(STDERR_DESCRIPTOR, f"ringtune host agent: {text}\n".encode("utf-8", "backslashreplace"))


def _environments(order: Message, ranks: Sequence[int]) -> dict[int, dict[str, str]]:
    """Return the environment of each rank that an order starts: with its place, or to be given one on arrival."""
    shared = {**os.environ, **order["environment"]}
    if "slots" in order:
        return {rank: worker_environment(shared, rank, int(order["slots"])) for rank in ranks}
    place = HostPlace(**order["place"])
    return {rank: rank_environment(shared, rank, ranks, place) for rank in ranks}


def _objection(check: Message) -> str:
    """Go to the job's working directory; return the reason why no rank can run here, empty if one can."""
    try:
        os.chdir(str(check["directory"]))
    except OSError as error:
        return f"the working directory {check['directory']!r} cannot be entered there ({error.strerror})"
    program = str(check["program"])
    path = check["path"] if isinstance(check["path"], str) else None
    if shutil.which(program, path=path) is None:
        return f"the command {program!r} was not found there, or cannot be executed (PATH={path})"
    if check["meeting"] is not None:
        host, port = check["meeting"]
        try:
            socket.create_connection((str(host), int(port)), timeout=REACH_LIMIT_S).close()
        except OSError as error:
            return f"the launcher cannot be reached from there at {host} port {port} ({error}); is there a firewall?"
    return ""


def main() -> int:
    """Take the two streams for the launcher alone and serve it."""
    occupy_standard_streams()
    orders, reports = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)  # whatever is printed by mistake is no report
    return Agent(orders, reports).run()


if __name__ == "__main__":
    sys.exit(main())
