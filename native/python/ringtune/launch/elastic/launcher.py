# SPDX-License-Identifier: Apache-2.0
"""`ringtune run --min-np`: the elastic launcher. Starts workers where slots are free, and replaces lost ones.

It is the launcher's one loop with three things more: discovery, which names the hosts; the rendezvous server, which
gives ranks on arrival; and `Course`, which decides whether the job goes on. Survivors of a loss do not wait for the
launcher; they wait for their next meeting alone.
"""

import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ringtune.errors import ConfigError
from ringtune.launch.ending import TERM_S
from ringtune.launch.job_loop import JobLoop, Reach
from ringtune.launch.local_ranks import LocalRanks
from ringtune.launch.plan import LaunchPlan
from ringtune.launch.rank_streams import OutputTaker
from ringtune.meeting.bootstrap.tls_variables import read_tls
from ringtune.meeting.rendezvous.address import LOOPBACK, Address
from ringtune.meeting.rendezvous.interfaces import own_networks, route_address
from ringtune.meeting.rendezvous.roster import Worker
from ringtune.meeting.rendezvous.server import Patience, RendezvousServer
from ringtune.system.counts import counted

from .answers import MISSING, Answer, FoundHost
from .course import GENERAL_FAILURE, Course, describe_loss
from .crew import Crew, CrewMember, Fate
from .discovery import Discovery, DiscoverySource, Faults, FindingProcess, FixedDiscovery
from .host_table import HostTable
from .placing import leavers, starts
from .roster import LauncherRoster
from .sizes import NO_LIMIT, WorldLimits
from .stations import Stations

LEAVE_S = 60.0  # for a worker that is to leave: a step, a commit and its end
TICK_S = 1.0  # interval of the looks at hosts that were called and have not answered
SHOWN_RANKS = 16
NEVER_S = float("inf")


@dataclass(frozen=True)
class ElasticLaunch:
    """An elastic job.

    Attributes:
        plan: Command, environment and streams of its workers.
        limits: Numbers of workers, and times that it waits for them.
        hosts: The hosts: those that were named, or the program that finds them.
    """

    plan: LaunchPlan
    limits: WorldLimits
    hosts: tuple[FoundHost, ...] | DiscoverySource

    @property
    def may_have_agents(self) -> bool:
        """True if workers may run on other hosts."""
        return isinstance(self.hosts, DiscoverySource) or not all(host.is_here for host in self.hosts)


def describe_elastic(job: ElasticLaunch) -> Iterator[str]:
    """Yield a line for each fact of an elastic job, for `--verbose`."""
    limits = job.limits
    most = "as many as there are slots" if limits.max_workers == NO_LIMIT else f"{limits.max_workers:g}"
    yield f"at least {counted(limits.min_workers, 'worker')}, {limits.first_workers} at first, at most {most}"
    yield f"their working directory is {job.plan.directory}"
    if isinstance(job.hosts, DiscoverySource):
        yield f"hosts are found by {job.hosts.origin} {job.hosts.source}"
        return
    for host in job.hosts:
        yield f"{counted(host.slots, 'worker')} on {host.name}, {'this machine' if host.is_here else 'another host'}"


class ElasticLauncher(JobLoop):
    """An elastic job. The exit code is 0 if the work is done, whatever was lost on the way."""

    _ending: Course
    _local: LocalRanks

    def __init__(self, job: ElasticLaunch, reach: Reach | None = None, taps: Sequence[OutputTaker] = ()) -> None:
        """Make the launcher; starts no worker.

        Args:
            job: The job.
            reach: Remote shell for other hosts; needed unless all hosts are this machine.
            taps: Get every worker's output besides the launcher's own streams.
        """
        super().__init__(job.plan, Course(job.limits, time.monotonic()), taps)
        self._limits = job.limits
        self._job = job
        self._reach = reach
        self._crew = Crew()
        self._table = HostTable(job.limits.cooldown)
        self._faults = Faults()
        self._roster = LauncherRoster(self._crew, job.limits, self._describe_hosts, self._note_meeting)
        self._local = LocalRanks(self._loop, self._output)
        self._stations = Stations(self._local, self._remote, self._output, reach)
        self._server: RendezvousServer | None = None
        self._discovery: Discovery | None = None
        self._has_answer = False
        self._is_short = False
        self._kills: dict[int, float] = {}  # when workers that have not left are killed

    def _may_have_agents(self) -> bool:
        return self._job.may_have_agents

    def _work(self) -> None:
        self._discovery = self._make_discovery()
        try:
            while not self._ending.is_complete:
                look_s = self._discovery.look_if_due()
                if self._server is not None and self._meeting is not None:
                    self._server.serve_ready()
                self._note_exits()
                self._tend_hosts()
                self._settle()
                if not self._ending.is_ending:
                    self._staff()
                self._end_overdue()
                self._end_as_due(time.monotonic())
                if not self._ending.is_complete:
                    self._turn(self._seconds_to_next(look_s))
        finally:
            self._discovery.close()

    # --- hosts

    def _make_discovery(self) -> Discovery:
        if isinstance(self._job.hosts, DiscoverySource):
            return FindingProcess(self._loop, self._job.hosts, self._plan.environment, self._take_answer)
        return FixedDiscovery(self._job.hosts, self._take_answer)

    def _take_answer(self, answer: Answer) -> None:
        self._table.note(answer)
        if not self._has_answer and (missing := next((p for p in answer.problems if p.kind == MISSING), None)):
            self._ending.fail(f"{self._origin()}: {missing.text}", GENERAL_FAILURE, time.monotonic())
            return
        for problem in self._faults.new(answer, time.monotonic()):
            wait = f"; waiting for hosts, up to {self._limits.elastic_s:g} s (--elastic-timeout)"
            kept = "; the hosts that were known stay" if self._has_answer else wait
            self._say(f"ringtune run: warning: {self._origin()}: {problem.text}{kept * problem.hides_hosts}.")
        self._has_answer = self._has_answer or bool(answer.hosts)
        self._tell_if_short(answer)

    def _origin(self) -> str:
        """Return the option that names the hosts, for messages."""
        return self._job.hosts.origin if isinstance(self._job.hosts, DiscoverySource) else "the hosts"

    def _tell_if_short(self, answer: Answer) -> None:
        """Say, when it begins, that discovery names too few slots for the job."""
        slots = sum(row.host.slots for row in self._table)
        is_short = answer.is_whole and slots < self._limits.min_workers
        if is_short and not self._is_short:
            self._say(
                f"ringtune run: the hosts have {counted(slots, 'slot')}, fewer than --min-np "
                f"{self._limits.min_workers}; waiting for more, up to {self._limits.elastic_s:g} s (--elastic-timeout)."
            )
        self._is_short = is_short

    def _tend_hosts(self) -> None:
        """Take note of other hosts that have failed, and let go of those without workers and slots."""
        now_s = time.monotonic()
        staffed = {member.host for member in self._crew}
        for name, reason in self._stations.tend(now_s).items():
            if name not in staffed and self._table.slots_of(name):  # else its workers' losses are told, and blamed
                self._note_fault(name, reason, now_s)
        self._stations.leave({row.name for row in self._table if row.host.slots} | staffed)

    def _note_fault(self, name: str, reason: str, now_s: float) -> None:
        """Say why a host cannot take part, and let it cool."""
        if not self._ending.is_ending:
            pauses = self._table.blame([name], now_s)
            rest = f"; it gets no new worker for {pauses[name]:.3g} s" if name in pauses else ""
            self._say(f"ringtune run: host {name} cannot take part: {reason}{rest}.")

    def _describe_hosts(self) -> str:
        return self._table.describe(time.monotonic())

    # --- workers

    def _staff(self) -> None:
        """Have workers leave that have no slot any more, and start workers where slots are free."""
        slots = {row.name: row.host.slots for row in self._table}
        now_s = time.monotonic()
        for member in leavers(slots, self._crew.running(), self._limits.max_workers):
            self._dismiss(member, f"its host has {counted(slots.get(member.host, 0), 'slot')} now", now_s)
        hosts = {host.name: host for host in self._table.available(now_s)}
        if not hosts or not self._may_grow():
            return
        if self._server is None:
            if not self._open_server(list(hosts.values())):
                return
            hosts = {host.name: host for host in self._table.available(now_s)}
        for name, count in starts(list(hosts.values()), self._crew.running(), self._limits.max_workers).items():
            self._start_on(hosts[name], count)

    def _may_grow(self) -> bool:
        """Return whether more workers would be of use: with no reset left, only those that a job cannot do without."""
        return self._roster.may_reset or len(self._crew.staffed()) < self._limits.min_workers

    def _start_on(self, host: FoundHost, count: int) -> None:
        """Start workers on a host, once it has answered; one that cannot start them cools."""
        assert self._server is not None
        members: list[CrewMember] = []
        try:
            if not self._stations.is_ready(host, self._plan, self._check_fields(Address.parse(self._server.address))):
                return
            come_by_s = time.monotonic() + self._limits.elastic_s
            members = [self._crew.add(host.name, come_by_s) for _ in range(count)]
            self._stations.start(host, [member.number for member in members], self._plan)
        except ConfigError as error:
            self._try_later(host, error)
            for member in members:
                if member.number not in self._local.ranks:
                    self._crew.strike(member.number)

    def _try_later(self, host: FoundHost, error: ConfigError) -> None:
        """Say why no worker can be started on a host, and let it cool."""
        pauses = self._table.blame([host.name], time.monotonic())
        self._say(f"ringtune run: warning: {error}; host {host.name} is tried again in {pauses[host.name]:.3g} s.")

    def _dismiss(self, member: CrewMember, reason: str, now_s: float) -> None:
        """Give a worker the chance to commit and to leave; one that has not come yet has no state to commit."""
        worker = next((w for w in self._workers() if w.arrival == member.arrival), None)
        if worker is None:
            member.leave_by_s = now_s
            return
        member.leave_by_s = now_s + LEAVE_S
        self._say(f"ringtune run: {member} is to leave: {reason}.")
        self._tell_to_leave([worker], f"this worker is to leave: {reason}")

    def _tell_to_leave(self, workers: Sequence[Worker], text: str) -> None:
        """Have workers leave at their next meeting, for which the others ask as well."""
        if self._server is not None and workers:
            self._server.announce(removed=[str(worker) for worker in workers])
            for worker in workers:
                self._server.dismiss(worker, text)
            self._server.serve_ready()  # those that wait hear of it at once

    def _end_overdue(self) -> None:
        """End workers that were to leave and have not, and those that the rendezvous server has lost."""
        now_s = time.monotonic()
        for member in self._crew.overdue(now_s):
            if member.number not in self._kills:
                self._stations.signal(signal.SIGTERM, {member.number})
                self._stations.signal(signal.SIGCONT, {member.number})
                self._kills[member.number] = now_s + TERM_S
            elif now_s >= self._kills[member.number]:
                self._stations.signal(signal.SIGKILL, {member.number})
                self._kills[member.number] = NEVER_S

    def _note_exits(self) -> None:
        self._remote.judge_silence()
        now_s = time.monotonic()
        for group in self._groups():
            for ended in group.take_exits():
                self._crew.note_exit(ended, group.pid_of(ended.rank), now_s)
                self._stations.release(ended.rank)

    def _settle(self) -> None:
        """Take the ends of workers, and decide whether the job goes on."""
        now_s = time.monotonic()
        losses = []
        for member, fate in self._crew.settle(now_s):
            self._kills.pop(member.number, None)
            self._ending.note_end(member, fate)
            if fate is Fate.LOST and not (self._ending.received_signal or self._ending.failure):
                losses.append(member)
        self._blame(losses, now_s)
        if self._roster.is_exhausted:
            limit = self._limits.reset_limit
            reason = f"its workers have changed once more than --reset-limit {limit} allows"
            self._ending.fail(reason, GENERAL_FAILURE, now_s)
        self._ending.judge(self._crew.running(), len(self._crew.staffed()), now_s)
        if self._ending.failure:
            self._tell_to_leave(self._workers(), f"the job has failed: {self._ending.failure}")
        elif self._ending.has_done:
            for member in self._crew.staffed():
                if not self._ending.is_in_latest(member):
                    self._dismiss(member, "others have done their work", now_s)

    def _blame(self, losses: Sequence[CrewMember], now_s: float) -> None:
        """Report the lost workers, and let their hosts cool."""
        pauses = {} if self._ending.is_ending else self._table.blame([member.host for member in losses], now_s)
        for member in losses:
            pause_s = pauses.pop(member.host, None)
            rest = "" if pause_s is None else f"; host {member.host} gets no new worker for {pause_s:.3g} s"
            self._say(f"ringtune run: {describe_loss(member)}{rest}.")

    # --- the rendezvous server

    def _open_server(self, hosts: Sequence[FoundHost]) -> bool:
        """Open the server at an address that hosts reach; return False where none of them can be reached now."""
        address = self._address_for(hosts)
        if address is None:
            return False
        patience = Patience(meeting_s=self._limits.elastic_s)
        key = bytes.fromhex(self._plan.job_key)
        tls = read_tls(self._plan.environment)
        self._server = RendezvousServer(key, address, self._roster, patience=patience, tls=tls)
        environment = {**self._plan.environment, "RINGTUNE_RENDEZVOUS": self._server.address}
        self._plan = replace(self._plan, environment=environment)
        self._open_meeting(self._server)
        return True

    def _address_for(self, hosts: Sequence[FoundHost]) -> str | None:
        """Return this machine's address that all hosts reach, those that come later as well.

        A host to which there is no way, as to a name that no longer resolves, is tried again later.

        Returns:
            The address; None where there is no way to any of the hosts.
        """
        if not self._may_have_agents() or self._reach is None:
            return LOOPBACK
        if self._reach.address is not None:
            return self._reach.address
        return self._way_to_any(hosts, self._reach)

    def _way_to_any(self, hosts: Sequence[FoundHost], reach: Reach) -> str | None:
        """Return this machine's address on the way to the first host that can be reached; None if none can be."""
        others = [host for host in hosts if not host.is_here]
        way = next((address for host in others if (address := self._way_to(host, reach))), None)
        if way is not None or len(others) == len(hosts):
            return way
        return next((network.partition("/")[0] for network in own_networks()), LOOPBACK)

    def _way_to(self, host: FoundHost, reach: Reach) -> str | None:
        """Return this machine's address on the way to a host; None where there is none, which is said."""
        try:
            return route_address(reach.shell.address_of(host.name))
        except ConfigError as error:
            self._try_later(host, error)
            return None

    def _workers(self) -> Sequence[Worker]:
        return () if self._server is None else self._server.workers

    def _note_meeting(self, members: Sequence[CrewMember]) -> None:
        """Report the rank of each worker."""
        self._ending.note_meeting(members)
        shown = ", ".join(f"{m.rank} is worker {m.number} ({m.host})" for m in members[:SHOWN_RANKS])
        more = f" and {len(members) - SHOWN_RANKS} more" if len(members) > SHOWN_RANKS else ""
        count = f"{counted(len(members), 'worker')} {'meets' if len(members) == 1 else 'meet'}"
        after = f" after {counted(self._roster.resets, 'reset')}" if self._roster.resets else ""
        self._say(f"ringtune run: {count}{after}: rank {shown}{more}.")

    def _seconds_to_next(self, look_s: float) -> float:
        """Return how long the loop may wait."""
        now_s = time.monotonic()
        dues_s = (
            self._ending.next_deadline_s(),
            self._ending.next_look_s(),
            self._crew.next_change_s(),
            self._table.next_change_s(now_s),
            self._roster.batch_due_s(),
            *self._kills.values(),
        )
        server_s = NEVER_S if self._server is None or self._meeting is None else self._server.next_look_s()
        tick_s = TICK_S if self._stations.are_waiting else NEVER_S
        return max(0.0, min(look_s, server_s, tick_s, min(dues_s) - now_s))

    def _explain(self) -> None:
        """Say why the job has failed, if it has."""
        if self._ending.received_signal:
            self._explain_signal("the workers")
        elif self._ending.failure:
            self._say(
                f"ringtune run: the job has failed: {self._ending.failure}. Started: "
                f"{counted(self._crew.started, 'worker')}, {counted(self._roster.resets, 'reset')}; "
                f"hosts: {self._describe_hosts()}."
            )
        self._explain_left_hosts()
