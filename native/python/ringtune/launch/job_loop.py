# SPDX-License-Identifier: Apache-2.0
"""The one loop of a launcher: output, signals, connections, and the end of the ranks on all hosts.

`JobLoop` knows neither how many ranks a job has nor when one is started; the launchers that extend it do.
"""

import errno
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ringtune.meeting.rendezvous.address import Address
from ringtune.system.console import STDERR_DESCRIPTOR, STDOUT_DESCRIPTOR
from ringtune.system.event_loop import EventLoop, signals_in

from .byte_sink import ByteSink
from .ending import NEVER_S, Ending
from .last_words import LastWords
from .local_ranks import MESSAGE_SIGNALS, LocalRanks
from .plan import LaunchPlan
from .rank_output import BACKLOG_BYTES, RankOutput, line_prefix
from .rank_streams import OutputTaker, is_same_file
from .remote_host import RemoteHost
from .remote_hosts import RemoteHosts
from .remote_shell import RemoteShell

LOCAL_DRAIN_S = 1.0  # for what others write after a rank's end: one that left its group may hold a stream for ever
REMOTE_END_S = 10.0  # for the agents to kill what is left and to pass on what was written last
PAUSE_S = 1.0


@dataclass(frozen=True)
class Reach:
    """Remote shell for other hosts.

    Attributes:
        shell: Runs commands on them.
        limit_s: Time limit of their answers.
        address: This machine's, by which they reach it; None: that of the route to the first of them.
    """

    shell: RemoteShell
    limit_s: float
    address: str | None = None


class MeetingPlace(Protocol):
    """Server that tells ranks of other hosts how to meet; served from within the loop."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to serve."""

    def serve_ready(self) -> None:
        """Serve the sockets that are ready; does not wait."""

    def close(self) -> None:
        """Close every socket; idempotent."""


class JobLoop(ABC):
    """One job. `run()` is called once, from the main thread."""

    def __init__(self, plan: LaunchPlan, ending: Ending, taps: Sequence[OutputTaker] = ()) -> None:
        """Make the loop of a job; starts no rank.

        Args:
            plan: The job.
            ending: Says when ranks are asked to end and killed, and with which code the job ends.
            taps: Get every rank's output besides the launcher's own streams, with standard output and error apart.
        """
        self._plan = replace(plan, streams=plan.streams.apart()) if taps else plan
        self._loop = EventLoop(takes_files=True)
        self._last_words = LastWords(is_joined=self._plan.streams.is_joined)
        self._output = self._make_output((self._last_words, *taps))
        self._lost_output: OSError | None = None
        self._ending = ending
        self._local: LocalRanks | None = None
        self._remote = RemoteHosts(self._loop)
        self._meeting: MeetingPlace | None = None

    def run(self) -> int:
        """Run the job to its end and return its exit code once no rank is left.

        Raises:
            ConfigError: If the job cannot be started; no process is left running.
        """
        stops = (signal.SIGTSTP,) if self._may_have_agents() else ()  # Ctrl-Z: they must not take it for a death
        sizes = (signal.SIGWINCH,) if self._plan.streams.has_terminal else ()
        with signals_in(self._loop, self._on_signal, (*MESSAGE_SIGNALS, *stops, *sizes)):
            try:
                self._work()
            finally:
                self._clear_up()
            self._explain()
            self._flush()
        self._loop.close()
        return self._ending.exit_code() or int(self._lost_output is not None)

    @abstractmethod
    def _may_have_agents(self) -> bool:
        """Return whether ranks may run on other hosts."""

    @abstractmethod
    def _work(self) -> None:
        """Start ranks and return once none runs and none will be started."""

    @abstractmethod
    def _explain(self) -> None:
        """Say why the job has failed, if it has."""

    def _turn(self, limit_s: float) -> None:
        """Wait for something to happen, no longer than the limit, and keep output and connections going."""
        shown_s = self._output.show_waiting()
        limit_s = limit_s if shown_s is None else min(limit_s, shown_s)
        limit_s = min(limit_s, self._remote.seconds_to_beat())
        self._loop.turn(None if limit_s == float("inf") else limit_s)
        for group in self._groups():
            group.set_paused(self._output.is_clogged)
        if self._remote.beat() and self._meeting is not None:
            self._meeting.serve_ready()  # drops who has connected and says nothing

    def _groups(self) -> list[LocalRanks | RemoteHost]:
        return [*([self._local] if self._local is not None else []), *self._remote]

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._stop_myself()
            return
        if number == signal.SIGWINCH:
            self._resize()
            return
        if number in MESSAGE_SIGNALS and self._pass_on(number):
            return
        if self._ending.is_complete:  # only output is left, and nobody wants it
            self._output.discard()
        to_send = self._ending.note_signal(number, time.monotonic())
        if to_send == signal.SIGKILL:
            self._output.discard()
        self._signal_ranks(to_send)

    def _pass_on(self, number: int) -> bool:
        """Send a message to the ranks; return whether that is all: SIGQUIT ends a job of which no rank runs."""
        is_running = self._local is not None and not self._ending.is_complete
        if is_running:
            self._signal_ranks(number)
        return is_running or number != signal.SIGQUIT

    def _signal_ranks(self, number: int) -> None:
        for group in self._groups():
            group.signal(number)

    def _resize(self) -> None:
        """Pass the new size of the user's window on to the ranks' terminals."""
        streams = self._plan.streams
        streams = streams.resized_as(STDOUT_DESCRIPTOR if streams.out_is_terminal else STDERR_DESCRIPTOR)
        self._plan = replace(self._plan, streams=streams)
        for group in self._groups():
            group.resize(streams)

    def _lose_output(self, error: OSError) -> None:
        """End the job if its reader has gone, as a pipeline ends; train on, and say so, if a disk is full."""
        if error.errno == errno.EIO:  # the terminal is gone, of which SIGHUP tells
            return
        if error.errno != errno.EPIPE:
            self._lost_output = error
            self._output.announce(
                f"ringtune run: standard output cannot be written ({error.strerror}); the job goes on, and what its "
                "ranks write there from now on is lost"
            )
        elif not self._ending.is_complete:
            self._ending.note_signal(signal.SIGPIPE, time.monotonic())
            self._signal_ranks(signal.SIGTERM)  # Python ignores SIGPIPE

    def _stop_myself(self) -> None:
        """Stop as the terminal asks; the ranks go on, and the agents are told that silence is no death."""
        self._remote.announce_pause()
        self._turn_until(lambda: not self._remote.have_orders, PAUSE_S)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._remote.resume()

    def _clear_up(self) -> None:
        """Leave no process behind, on any host, and lose no output."""
        if self._local is not None:
            self._local.reap()
        self._remote.finish()
        local = self._local
        if local is not None:
            self._turn_until(lambda: local.is_drained, LOCAL_DRAIN_S)
            self._turn_until(lambda: not local.have_last_words, NEVER_S)  # a busy machine may need longer for these
            local.close()
        self._turn_until(lambda: self._remote.is_drained, REMOTE_END_S)
        self._remote.leave_alone()
        self._close_meeting()
        self._output.show_all()
        self._flush()

    def _check_fields(self, meeting: Address | None) -> dict[str, object]:
        """Return the fields of the order that asks a host whether it can take part.

        Args:
            meeting: Address that its ranks must reach; None for none.
        """
        return {
            "directory": self._plan.directory,
            "program": self._plan.command[0],
            "path": self._plan.environment.get("PATH"),
            "meeting": None if meeting is None else [meeting.host, meeting.port],
        }

    def _end_as_due(self, now_s: float) -> None:
        """Send the signals that the end of the job makes due, or give up waiting for the ranks."""
        for number in self._ending.due_signals(now_s):
            self._signal_ranks(number)
        if self._ending.gives_up(now_s):
            self._remote.leave_alone()

    def _explain_signal(self, addressees: str) -> None:
        """Say by which signal of the user a job ended, and to whom it was passed on."""
        if self._ending.received_signal == signal.SIGPIPE:
            self._say("ringtune run: the job was ended, for nobody reads its standard output any more.")
            return
        name = signal.Signals(self._ending.received_signal).name
        self._say(f"ringtune run: ended by {name}, which was passed on to {addressees}.")

    def _explain_left_hosts(self) -> None:
        """Name the hosts that did not confirm the end of their ranks."""
        for host in self._remote.left_alone:
            self._say(f"ringtune run: host {host.name}: {host.loss}; look there for what may be left of the job.")

    def _open_meeting(self, meeting: MeetingPlace) -> None:
        self._meeting = meeting
        self._loop.on_readable(meeting.fileno(), meeting.serve_ready)

    def _close_meeting(self) -> None:
        if self._meeting is not None:
            self._loop.forget(self._meeting.fileno())
            self._meeting.close()
            self._meeting = None

    def _turn_until(self, is_done: Callable[[], bool], limit_s: float) -> None:
        """Turn the loop until `is_done` or the limit; time with a clogged output does not count."""
        end_s = time.monotonic() + limit_s
        while not is_done() and time.monotonic() < end_s:
            self._turn(max(0.0, end_s - time.monotonic()))
            if self._output.is_clogged:
                end_s = time.monotonic() + limit_s

    def _flush(self) -> None:
        while self._output.pending_bytes:
            self._loop.turn(None)

    def _say(self, text: str) -> None:
        self._output.announce(text)

    def _make_output(self, taps: Sequence[OutputTaker]) -> RankOutput:
        """Return where the ranks' lines go: this process's streams, as one where they are the same file or terminal."""
        out = ByteSink(self._loop, STDOUT_DESCRIPTOR, clogged_bytes=BACKLOG_BYTES, on_loss=self._lose_output)
        err = out
        if not is_same_file(STDOUT_DESCRIPTOR, STDERR_DESCRIPTOR):
            err = ByteSink(self._loop, STDERR_DESCRIPTOR, clogged_bytes=BACKLOG_BYTES)
        prefix = line_prefix(has_rank=self._plan.is_prefixed, has_time=self._plan.is_stamped)
        return RankOutput((out, err), prefix, taps)
