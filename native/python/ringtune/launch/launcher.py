# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: start the ranks, here and on other hosts, watch them, and end them together.

One thread and one loop. The ranks of this machine are the launcher's children; those of another host are the children
of an agent there, which is one connection of the remote shell. Who is blamed and when somebody is asked or killed is
decided in `JobEnding`, for all hosts alike.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from ringtune.console import STDERR_DESCRIPTOR, STDOUT_DESCRIPTOR
from ringtune.errors import ConfigError
from ringtune.rendezvous.address import Address
from ringtune.rendezvous.address_book import AddressBook
from ringtune.rendezvous.interfaces import route_address

from .addresses import is_this_machine
from .byte_sink import ByteSink
from .ending import NEVER_S, JobEnding
from .event_loop import EventLoop, signals_in
from .host_check import HostCheck
from .hosts import HostShare
from .local_ranks import MESSAGE_SIGNALS, LocalRanks
from .plan import LaunchPlan
from .processes import RankCommand
from .rank_output import BACKLOG_BYTES, WIPE_LINE, RankOutput, line_prefix
from .rank_streams import OutputTaker, is_same_file
from .remote_host import RemoteHost
from .remote_hosts import RemoteHosts
from .remote_shell import RemoteShell, agent_command

LOCAL_DRAIN_S = 1.0  # for what others write after a rank's end: one that left its group may hold a stream for ever
REMOTE_END_S = 10.0  # for the agents to kill what is left and to pass on what was written last
PAUSE_S = 1.0
_TICK_S = 1.0  # interval of the line that names missing hosts


@dataclass(frozen=True)
class Reach:
    """Remote shell for other hosts.

    Attributes:
        shell: Runs commands on them.
        limit_s: Time limit of their answers, before any rank starts.
        address: This machine's, by which they reach it; None: that of the route to the first of them.
    """

    shell: RemoteShell
    limit_s: float
    address: str | None = None


class Launcher:
    """One job. `run()` is called once, from the main thread."""

    def __init__(self, plan: LaunchPlan, reach: Reach | None = None, taps: Sequence[OutputTaker] = ()) -> None:
        """Make the launcher; starts nothing.

        Args:
            plan: The job.
            reach: Remote shell for other hosts; needed if the plan names any.
            taps: Get what every rank writes besides the launcher's own streams, with standard output and error apart.
        """
        self._plan = replace(plan, streams=plan.streams.apart()) if taps else plan
        self._reach = reach
        self._loop = EventLoop()
        self._output = self._make_output(taps)
        self._lost_output: OSError | None = None
        self._ending = JobEnding(plan.world_size)
        self._local: LocalRanks | None = None
        self._remote = RemoteHosts(self._loop)
        self._book: AddressBook | None = None

    def run(self) -> int:
        """Start the ranks and return the job's exit code once none is left.

        Returns:
            0, or the code of the first rank that failed: 128 + the signal if it was killed.

        Raises:
            ConfigError: If a host cannot take part or a rank cannot be started; nothing is left running.
        """
        remote = [share for share in self._plan.shares if not self._is_local(share)]
        stops = (signal.SIGTSTP,) if remote else ()  # Ctrl-Z: the agents must not take the launcher for dead
        sizes = (signal.SIGWINCH,) if self._plan.streams.has_terminal else ()
        with signals_in(self._loop, self._on_signal, (*MESSAGE_SIGNALS, *stops, *sizes)):
            try:
                self._check_hosts(remote)
                if not self._ending.received_signal:
                    self._start()
                    self._watch()
            finally:
                self._clear_up()
            self._explain()
            self._flush()
        self._loop.close()
        return self._ending.exit_code() or int(self._lost_output is not None)

    def _is_local(self, share: HostShare) -> bool:
        return not self._plan.names_hosts or is_this_machine(share.host)

    def _check_hosts(self, remote: list[HostShare]) -> None:
        """Call the other hosts and return when all can take part, or the user has ended the job."""
        local = [share.host for share in self._plan.shares if share not in remote]
        if len(local) > 1:
            raise ConfigError(f"{' and '.join(local)} are both this machine; name it once, with the sum of the slots")
        if not remote:
            return
        assert self._reach is not None
        shell, agent = self._reach.shell, agent_command(self._plan.environment)
        if len(self._plan.shares) > 1:
            self._open_book(self._reach.address or route_address(shell.address_of(remote[0].host)))
        called = self._remote.call(
            remote, lambda host: shell.command_on(host, agent), self._check_fields(), self._output
        )
        check = HostCheck.begin(called, self._reach.limit_s)
        self._wait_for(check)
        if not self._ending.received_signal:
            check.conclude()

    def _wait_for(self, check: HostCheck) -> None:
        """Return when all hosts have answered or failed, the time is up, or the user has ended the job."""
        is_watched, is_shown = os.isatty(STDERR_DESCRIPTOR), False
        while not check.is_over() and not self._ending.received_signal:
            self._turn(_TICK_S)
            if is_watched and check.progress():
                _write_live(check.progress())
                is_shown = True
        if is_shown:
            _write_live("")

    def _open_book(self, address: str) -> None:
        """Serve the meeting of ranks on several hosts, at the address that the others reach this machine by."""
        self._book = AddressBook(bytes.fromhex(self._plan.job_key), address)
        environment = {**self._plan.environment, "RINGTUNE_RENDEZVOUS": self._book.address}
        self._plan = replace(self._plan, environment=environment)
        self._loop.on_readable(self._book.fileno(), self._book.serve_ready)

    def _check_fields(self) -> dict[str, object]:
        meeting = None
        if self._book is not None:
            address = Address.parse(self._book.address)
            meeting = [address.host, address.port]
        path = self._plan.environment.get("PATH")
        return {
            "directory": self._plan.directory,
            "program": self._plan.command[0],
            "path": path,
            "meeting": meeting,
        }

    def _start(self) -> None:
        for host in self._remote:
            host.start(
                {
                    "command": list(self._plan.command),
                    "environment": self._plan.forwarded_from(host.ranks[0]),
                    "streams": asdict(self._plan.streams),
                    "place": asdict(self._plan.place_of(host.ranks[0])),
                    "job_key": self._plan.job_key,
                }
            )
        remote_ranks = {rank for host in self._remote for rank in host.ranks}
        environments = {
            rank: environment for rank, environment in enumerate(self._plan.environments) if rank not in remote_ranks
        }
        command = RankCommand(self._plan.command, self._plan.job_key, self._plan.streams)
        self._local = LocalRanks(self._loop, command, environments, self._output)
        self._local.start()

    def _watch(self) -> None:
        assert self._local is not None
        while not self._ending.is_complete:
            self._turn(max(0.0, self._ending.next_deadline_s() - time.monotonic()))
            self._remote.judge_silence()
            now_s = time.monotonic()
            self._ending.note_exits([e for group in self._groups() for e in group.take_exits()], now_s)
            for number in self._ending.due_signals(now_s):
                self._signal_ranks(number)
            if self._ending.gives_up(now_s):
                self._remote.leave_alone()

    def _turn(self, limit_s: float) -> None:
        """Wait for something to happen, no longer than the limit, and keep output and connections going."""
        shown_s = self._output.show_waiting()
        limit_s = limit_s if shown_s is None else min(limit_s, shown_s)
        limit_s = min(limit_s, self._remote.seconds_to_beat())
        self._loop.turn(None if limit_s == float("inf") else limit_s)
        for group in self._groups():
            group.set_paused(self._output.is_clogged)
        if self._remote.beat() and self._book is not None:
            self._book.serve_ready()  # drops who has connected and says nothing

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
        """Leave nothing behind, on any host, and lose nothing that was written."""
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
        if self._book is not None:
            self._loop.forget(self._book.fileno())
            self._book.close()
        self._output.show_all()
        self._flush()

    def _turn_until(self, is_done: Callable[[], bool], limit_s: float) -> None:
        """Go on until something is done or the limit has passed; time during which nobody takes output is free."""
        end_s = time.monotonic() + limit_s
        while not is_done() and time.monotonic() < end_s:
            self._turn(max(0.0, end_s - time.monotonic()))
            if self._output.is_clogged:
                end_s = time.monotonic() + limit_s

    def _flush(self) -> None:
        while self._output.pending_bytes:
            self._loop.turn(None)

    def _explain(self) -> None:
        """Say why the job has failed, if it has."""
        size, failure = self._plan.world_size, self._ending.first_failure
        if self._ending.received_signal == signal.SIGPIPE:
            self._say("ringtune run: the job was ended, for nobody reads its standard output any more.")
        elif self._ending.received_signal:
            name = signal.Signals(self._ending.received_signal).name
            self._say(f"ringtune run: ended by {name}, which was passed on to all {size} ranks.")
        elif failure is not None:
            pid = next((group.pid_of(failure.rank) for group in self._groups() if failure.rank in group.ranks), 0)
            others = self._ending.failures - 1
            rest = f" {others} other rank{'s' if others > 1 else ''} failed after it." if others else ""
            self._say(
                f"ringtune run: rank {failure.rank} of {size} (host {self._plan.host_of(failure.rank)}, pid {pid}) "
                f"{failure.description}, the first to fail; the job was ended.{rest} Its own messages are above."
            )
        for host in self._remote.left_alone:
            self._say(f"ringtune run: host {host.name}: {host.loss}; look there for what may be left of the job.")

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


def _write_live(text: str) -> None:
    """Replace the line that says who is waited for."""
    try:
        os.write(STDERR_DESCRIPTOR, WIPE_LINE + text.encode("utf-8", "backslashreplace"))
    except OSError:  # the terminal is gone; the line was for it alone
        return
