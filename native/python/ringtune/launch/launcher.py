# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: start the ranks, here and on other hosts, watch them, and end them together.

One thread and one loop. The ranks of this machine are the launcher's children; those of another host are the children
of an agent there, which is one connection of the remote shell. `JobEnding` decides for all hosts alike which rank is
blamed, and when a rank is asked to end or killed.
"""

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.tls_variables import read_tls
from ringtune.meeting.rendezvous.address import LOOPBACK, Address
from ringtune.meeting.rendezvous.address_book import AddressBook
from ringtune.meeting.rendezvous.interfaces import route_address
from ringtune.system.console import STDERR_DESCRIPTOR

from .addresses import is_this_machine, refuse_same_machine
from .ending import JobEnding
from .host_check import QUIET_S, HostCheck
from .hosts import HostShare
from .job_loop import JobLoop, Reach
from .local_ranks import LocalRanks
from .plan import LaunchPlan
from .processes import RankCommand
from .rank_output import WIPE_LINE
from .rank_streams import OutputTaker
from .remote_shell import agent_command
from .torch_place import with_torch_place

_TICK_S = 1.0  # interval of the line that names missing hosts


class Launcher(JobLoop):
    """A job whose ranks are all started at once. The exit code is that of the first rank that fails."""

    _ending: JobEnding

    def __init__(self, plan: LaunchPlan, reach: Reach | None = None, taps: Sequence[OutputTaker] = ()) -> None:
        """Make the launcher; starts no rank.

        Args:
            plan: The job.
            reach: Remote shell for other hosts; needed if the plan names any.
            taps: Get every rank's output besides the launcher's own streams, with standard output and error apart.
        """
        super().__init__(plan, JobEnding(plan.world_size), taps)
        self._reach = reach
        self._own_address = LOOPBACK  # as other hosts reach this machine

    @cached_property
    def _elsewhere(self) -> list[HostShare]:
        """Shares of other hosts."""
        return [s for s in self._plan.shares if self._plan.names_hosts and not is_this_machine(s.host)]

    def _may_have_agents(self) -> bool:
        return bool(self._elsewhere)

    def _work(self) -> None:
        self._check_hosts(self._elsewhere)
        if not self._ending.received_signal:
            self._place_torch()
            self._start()
            self._watch()

    def _check_hosts(self, remote: list[HostShare]) -> None:
        """Call the other hosts and return when all can take part, or the user has ended the job."""
        local = [share.host for share in self._plan.shares if share not in remote]
        refuse_same_machine(local)
        if not remote:
            return
        assert self._reach is not None
        shell, agent = self._reach.shell, agent_command(self._plan.environment)
        start_s = time.monotonic()
        meeting = None
        if len(self._plan.shares) > 1:
            meeting = self._open_book(self._reach.address or self._way_to(shell.address_of(remote[0].host), start_s))
        if self._ending.received_signal:
            return
        called = self._remote.call(remote, shell, agent, self._check_fields(meeting), self._output)
        check = HostCheck(called, self._reach.limit_s, start_s)
        self._wait_for(check)
        if not self._ending.received_signal:
            check.conclude()

    def _way_to(self, host: str, start_s: float) -> str:
        """Return this machine's address on the way to a host; its name may be known only once it has started.

        Args:
            host: Name or address.
            start_s: When the hosts were asked for first, on the monotonic clock.
        """
        assert self._reach is not None
        is_told = False
        while True:
            try:
                return route_address(host)
            except ConfigError as error:
                elapsed_s = time.monotonic() - start_s
                if elapsed_s >= self._reach.limit_s:
                    raise
                if elapsed_s >= QUIET_S and not is_told:
                    self._say(
                        f"ringtune run: {error}. It is tried again for {self._reach.limit_s:.0f} s (--start-timeout)"
                    )
                    is_told = True
            self._turn(min(_TICK_S, max(0.0, start_s + self._reach.limit_s - time.monotonic())))
            if self._ending.received_signal:
                return LOOPBACK

    def _wait_for(self, check: HostCheck) -> None:
        """Return when all hosts have answered or failed, the time is up, or the user has ended the job."""
        is_watched, is_shown, is_told = os.isatty(STDERR_DESCRIPTOR), False, False
        while not check.is_over() and not self._ending.received_signal:
            self._turn(_TICK_S)
            check.call_again()
            if not is_told and check.absence():
                self._say(check.absence())
                is_told = True
            if is_watched and check.progress():
                _write_live(check.progress())
                is_shown = True
        if is_shown:
            _write_live("")

    def _open_book(self, address: str) -> Address:
        """Serve the meeting of ranks on several hosts, at the address that the others reach this machine by."""
        self._own_address = address
        book = AddressBook(bytes.fromhex(self._plan.job_key), address, read_tls(self._plan.environment))
        environment = {**self._plan.environment, "RINGTUNE_RENDEZVOUS": book.address}
        self._plan = replace(self._plan, environment=environment)
        self._open_meeting(book)
        return Address.parse(book.address)

    def _place_torch(self) -> None:
        """Choose where torch's store is served, for a job that asks for torch's backend."""
        first = self._plan.shares[0]
        if first in self._elsewhere and self._reach is not None:
            self._plan = with_torch_place(self._plan, self._reach.shell.address_of(first.host), is_here=False)
        else:
            self._plan = with_torch_place(self._plan, self._own_address, is_here=True)

    def _start(self) -> None:
        for host in self._remote:
            host.start(
                host.ranks,
                {
                    "command": list(self._plan.command),
                    "environment": self._plan.forwarded_from(host.ranks[0]),
                    "streams": asdict(self._plan.streams),
                    "place": asdict(self._plan.place_of(host.ranks[0])),
                    "job_key": self._plan.job_key,
                },
            )
        remote_ranks = {rank for host in self._remote for rank in host.ranks}
        environments = {
            rank: environment for rank, environment in enumerate(self._plan.environments) if rank not in remote_ranks
        }
        command = RankCommand(self._plan.command, self._plan.job_key, self._plan.streams)
        self._local = LocalRanks(self._loop, self._output)
        self._local.start(command, environments)

    def _watch(self) -> None:
        assert self._local is not None
        while not self._ending.is_complete:
            self._turn(max(0.0, self._ending.next_deadline_s() - time.monotonic()))
            self._remote.judge_silence()
            now_s = time.monotonic()
            self._ending.note_exits([e for group in self._groups() for e in group.take_exits()], now_s)
            self._end_as_due(now_s)

    def _explain(self) -> None:
        """Say why the job has failed, if it has."""
        size, failure = self._plan.world_size, self._ending.first_failure
        if self._ending.received_signal:
            self._explain_signal(f"all {size} ranks")
        elif failure is not None:
            pid = next((group.pid_of(failure.rank) for group in self._groups() if failure.rank in group.ranks), 0)
            others = self._ending.failures - 1
            has_spoken = failure.signal_number in {0, signal.SIGABRT}  # the last words of a killed rank are no error
            error = self._last_words.error_of(failure.rank) if has_spoken else ""
            quote = f" It said: {error.removesuffix('.')}." if error else ""
            rest = f" {others} other rank{'s' if others > 1 else ''} failed after it." if others else ""
            self._say(
                f"ringtune run: rank {failure.rank} of {size} (host {self._plan.host_of(failure.rank)}, pid {pid}) "
                f"{failure.description}, the first to fail; the job was ended.{quote}{rest} Its own messages are above."
            )
        self._explain_left_hosts()


def _write_live(text: str) -> None:
    """Replace the line that names the awaited hosts."""
    try:
        os.write(STDERR_DESCRIPTOR, WIPE_LINE + text.encode("utf-8", "backslashreplace"))
    except OSError:  # the terminal is gone; the line was for it alone
        return
