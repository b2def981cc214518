# SPDX-License-Identifier: Apache-2.0
"""One other host of a job, as the launcher sees it: a connection to the host's agent through the remote shell."""

import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ringtune.system.event_loop import EventLoop

from . import agent_protocol
from .agent_protocol import AgentReport, Message, ProtocolError, ReportDecoder
from .byte_sink import ByteSink
from .hosts import HostShare
from .local_ranks import READ_BYTES
from .processes import RankExit
from .rank_streams import STDERR, STDOUT, OutputTaker, RankStreams
from .remote_shell import RemoteShell
from .remote_shell_process import END_S, end_shell, start_shell

CALL_AGAIN_S = 1.0  # interval between two calls of a host that is not up yet
LOST_CODE = 128 + signal.SIGKILL  # the agent, or the kernel after it, kills the ranks of a lost host


class RemoteHost:
    """A host with its ranks, from the connection to its end. A host that talks nonsense is a lost one.

    Attributes:
        facts: Facts that the agent reported about its host, once it has.
        loss: Reason why the connection ended before it should, in words; empty while it lives.
        unreached: Last words of a call that has not reached the host, which may still be starting; else empty.
    """

    def __init__(
        self, loop: EventLoop, share: HostShare, shell: RemoteShell, agent: Sequence[str], output: OutputTaker
    ) -> None:
        """Start the remote shell.

        Args:
            loop: Watches the connection.
            share: The host's name, and the ranks that it is to have as far as they are known.
            shell: Runs commands on the host.
            agent: Command that starts the agent there.
            output: Takes the ranks' output.

        Raises:
            ConfigError: If the remote shell cannot be started.
        """
        self._loop = loop
        self._name = share.host
        self._ranks = set(share.ranks)
        self._output = output
        self._remote_shell = shell
        self._command = shell.command_on(share.host, agent)
        self._check: Mapping[str, Any] = {}
        self._pids: dict[int, int] = {}
        self._running: set[int] = set()
        self._fresh_exits: list[RankExit] = []
        self._is_paused = False
        self._is_finishing = False
        self.facts: Message | None = None
        self.loss = ""
        self._said_before = ""
        self._connect()

    @property
    def name(self) -> str:
        """The host, as the user named it."""
        return self._name

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks that it has, or had."""
        return tuple(sorted(self._ranks))

    @property
    def is_drained(self) -> bool:
        """True if no more reports will come from it."""
        return not self._is_open

    @property
    def runs_any(self) -> bool:
        """True if it has a rank that has not ended."""
        return bool(self._running)

    @property
    def has_orders(self) -> bool:
        """True if orders wait to be written."""
        return bool(self._orders.pending_bytes)

    def order(self, kind: str, **fields: Any) -> None:
        """Send an order; ignored if the connection has ended."""
        if self._is_open and not self._is_finishing:
            self._orders.write(agent_protocol.encode_order({"type": kind, **fields}))

    def check(self, fields: Mapping[str, Any]) -> None:
        """Ask the host for its facts, in this call and in every further one.

        Args:
            fields: Fields of the check order.
        """
        self._check = fields
        self.order("check", **fields)

    def call_again(self) -> None:
        """Call the host again if the last call has not reached it, and was some time ago."""
        if self.unreached and not self.loss and time.monotonic() >= self._called_s + CALL_AGAIN_S:
            self._connect()
            self.check(self._check)

    def start(self, ranks: Sequence[int], fields: Mapping[str, Any]) -> None:
        """Order the host to start ranks, beside those that run.

        Args:
            ranks: The ranks.
            fields: Fields of the start order, but for the ranks.
        """
        self._ranks.update(ranks)
        self._running.update(ranks)
        self.order("start", ranks=list(ranks), **fields)
        if not self._is_open:
            self._lose_running()

    def signal(self, number: int, ranks: Collection[int] | None = None) -> None:
        """Order a signal for the ranks that run, or for some of them."""
        self.order("signal", number=number, ranks=None if ranks is None else sorted(self._running & set(ranks)))

    def release(self, rank: int) -> None:
        """Order the host to kill the remaining processes of a rank that has ended."""
        self.order("release", rank=rank)

    def resize(self, streams: RankStreams) -> None:
        """Order another size for the ranks' terminals."""
        self.order("resize", streams=asdict(streams))

    def pid_of(self, rank: int) -> int:
        """Return the process id of a rank on its host, 0 if it is not known."""
        return self._pids.get(rank, 0)

    def take_exits(self) -> list[RankExit]:
        """Return the ranks that have ended, or were lost, since the last call."""
        fresh, self._fresh_exits = self._fresh_exits, []
        return fresh

    def set_paused(self, is_paused: bool) -> None:
        """Stop to read reports, or go on: the ranks' output is held back there."""
        if is_paused == self._is_paused or not self._is_open:
            return
        self._is_paused = is_paused
        if is_paused:
            self._loop.forget(self._shell.stdout)
        else:
            self.forgive_silence()
            self._loop.on_readable(self._shell.stdout, self._read_reports)

    def forgive_silence(self) -> None:
        """Count silence from now on: reports were not read before."""
        self._heard_s = time.monotonic()

    def judge_silence(self) -> None:
        """Give the host up if it was silent for too long."""
        is_silent = time.monotonic() - self._heard_s > agent_protocol.SILENCE_S
        if self._is_open and is_silent and not self._is_paused:
            self.abandon(f"nothing was heard from it for {agent_protocol.SILENCE_S:.0f} s")

    def finish(self) -> None:
        """Let the agent kill the rest of its ranks, report their last output, and end."""
        if self._is_open:
            self._is_finishing = True
            self._orders.discard()
            self._shell.close_stdin()

    def abandon(self, reason: str, limit_s: float = END_S) -> None:
        """End the connection, if it lives; ranks that have not reported their end are lost.

        Args:
            reason: Reason in words.
            limit_s: Time limit for the remote shell to end by itself.
        """
        if self._is_open:
            last_words = self._disconnect(limit_s)
            if self.facts is None and self._said_before:  # a call that was cut short knows less than the one before
                last_words = self._said_before
            self.loss = f"{reason}; {last_words}"
            self._lose_running()
        elif self.unreached:
            self.loss = self.loss or f"{reason}; {self.unreached}"

    def _connect(self) -> None:
        """Start the remote shell."""
        self._called_s = self._heard_s = time.monotonic()
        self.unreached = ""
        self._decoder = ReportDecoder()
        self._shell = start_shell(self._command)
        self._orders = ByteSink(self._loop, self._shell.stdin)
        self._is_open = True
        self._loop.on_readable(self._shell.stdout, self._read_reports)
        self._loop.on_readable(self._shell.stderr, self._read_complaints)

    def _disconnect(self, limit_s: float) -> str:
        """End the remote shell; return its last words and its exit code."""
        self._is_open = False
        self._orders.discard()
        self._loop.forget(self._shell.stdout)
        self._loop.forget(self._shell.stderr)
        return end_shell(self._shell, self._command, limit_s)

    def _note_end(self) -> None:
        """Take the end of the connection for a loss, unless the host was never reached and may be starting."""
        last_words = self._disconnect(END_S)
        if self.facts is None and not self._is_finishing and self._remote_shell.may_come_up(last_words):
            self.unreached = self._said_before = last_words
        else:
            self.loss = f"the connection ended; {last_words}"
            self._lose_running()

    def _lose_running(self) -> None:
        for rank in sorted(self._running):
            self._fresh_exits.append(RankExit(rank, LOST_CODE, signal.SIGKILL, loss=self.loss))
        self._running.clear()

    def _read_complaints(self) -> None:
        if not self._shell.take_from(self._shell.stderr):
            self._loop.forget(self._shell.stderr)

    def _read_reports(self) -> None:
        data = os.read(self._shell.stdout, READ_BYTES)
        self._heard_s = time.monotonic()
        if not data:
            self._note_end()
            return
        try:
            for report in self._decoder.feed(data):
                self._note(report)
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            self.abandon(f"what it said cannot be understood ({error!r})", limit_s=0)

    def _note(self, report: AgentReport) -> None:
        if report.kind == agent_protocol.MESSAGE:
            self._note_message(report.message())
        elif report.rank in self._ranks:
            stream = STDERR if report.kind == agent_protocol.STDERR else STDOUT
            self._output.take(report.rank, stream, report.payload)
        else:
            raise ProtocolError(f"output of rank {report.rank}, which is elsewhere")

    def _note_message(self, message: Message) -> None:
        if message["type"] == "hello":
            self.facts = message
        elif message["type"] == "started":
            self._pids.update(zip(map(int, message["ranks"]), map(int, message["pids"]), strict=True))
        elif message["type"] == "failed":
            self.abandon(str(message["text"]))
        elif message["type"] == "exit":
            ended = RankExit(int(message["rank"]), int(message["code"]), int(message["signal"]))
            if ended.rank not in self._running:
                raise ProtocolError(f"the end of rank {ended.rank}, which does not run there")
            self._running.discard(ended.rank)
            self._fresh_exits.append(ended)
