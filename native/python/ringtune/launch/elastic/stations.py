# SPDX-License-Identifier: Apache-2.0
"""Stations of an elastic job, where workers are started and signalled: this machine and, by agents, other hosts."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from ringtune.launch.environment import forwarded, worker_environment
from ringtune.launch.host_check import problem_of
from ringtune.launch.hosts import HostShare
from ringtune.launch.job_loop import Reach
from ringtune.launch.local_ranks import LocalRanks
from ringtune.launch.plan import LaunchPlan
from ringtune.launch.processes import RankCommand
from ringtune.launch.rank_streams import OutputTaker
from ringtune.launch.remote_host import RemoteHost
from ringtune.launch.remote_hosts import RemoteHosts
from ringtune.launch.remote_shell import agent_command

from .answers import FoundHost


@dataclass
class _Call:
    """A connection to another host, from the first call on."""

    host: RemoteHost
    since_s: float
    is_ready: bool = False
    is_leaving: bool = False


class Stations:
    """Starts, signals and releases workers on every host; calls other hosts when they are needed."""

    def __init__(self, local: LocalRanks, remote: RemoteHosts, output: OutputTaker, reach: Reach | None) -> None:
        """Make the stations; calls no host yet.

        Args:
            local: Workers of this machine.
            remote: Connections to other hosts.
            output: Takes the workers' output.
            reach: Remote shell for other hosts; None in a job that has none.
        """
        self._local = local
        self._remote = remote
        self._output = output
        self._reach = reach
        self._calls: dict[str, _Call] = {}
        self._places: dict[int, str] = {}  # host of a worker, this machine's workers left out

    def is_ready(self, host: FoundHost, plan: LaunchPlan, check: Mapping[str, object]) -> bool:
        """Return whether workers can be started on a host now; another host is called if it was not.

        Args:
            host: The host.
            plan: The job.
            check: Fields of the order that asks a host whether it can take part.

        Raises:
            ConfigError: If the remote shell cannot be started.
        """
        if host.is_here:
            return True
        call = self._calls.get(host.name)
        if call is None:
            assert self._reach is not None
            share = [HostShare(host.name, ())]
            agent = agent_command(plan.environment)
            (remote,) = self._remote.call(share, self._reach.shell, agent, check, self._output)
            call = self._calls[host.name] = _Call(remote, time.monotonic())
        return call.is_ready

    def start(self, host: FoundHost, numbers: Sequence[int], plan: LaunchPlan) -> None:
        """Start workers on a host that is ready.

        Args:
            host: The host.
            numbers: Numbers of the workers.
            plan: The job.

        Raises:
            ConfigError: If one cannot be started on this machine.
        """
        shared = {**plan.environment, "HOROVOD_HOSTNAME": host.name}
        if host.is_here:
            command = RankCommand(plan.command, plan.job_key, plan.streams)
            environments = {number: worker_environment(shared, number, host.slots) for number in numbers}
            self._local.start(command, environments)
            return
        fields = {
            "command": list(plan.command),
            "environment": forwarded(shared, plan.streams, plan.sent),
            "streams": asdict(plan.streams),
            "slots": host.slots,
            "job_key": plan.job_key,
        }
        self._places.update(dict.fromkeys(numbers, host.name))
        self._calls[host.name].host.start(numbers, fields)

    def pid_of(self, number: int) -> int:
        """Return the process id of a worker on its host, 0 if it is not known."""
        name = self._places.get(number)
        call = self._calls.get(name) if name is not None else None
        return self._local.pid_of(number) if call is None else call.host.pid_of(number)

    def signal(self, signal_number: int, numbers: Collection[int]) -> None:
        """Send a signal to some workers."""
        self._local.signal(signal_number, numbers)
        for call in self._calls.values():
            call.host.signal(signal_number, numbers)

    def release(self, number: int) -> None:
        """Kill the remaining processes of a worker that has ended."""
        name = self._places.pop(number, None)
        if name is None:
            self._local.release(number)
        elif name in self._calls:
            self._calls[name].host.release(number)

    @property
    def are_waiting(self) -> bool:
        """True if a host was called that has not answered yet."""
        return any(not call.is_ready and not call.is_leaving for call in self._calls.values())

    def tend(self, now_s: float) -> dict[str, str]:
        """Take answers of hosts, and forget those whose connections have ended; to be called after `take_exits`.

        Returns:
            Hosts that cannot take part any more, or not yet, and why.
        """
        failed = {}
        for name, call in list(self._calls.items()):
            reason = self._fault_of(call, now_s)
            if reason:
                call.host.abandon(reason, limit_s=0)
                failed[name] = reason
            if call.host.is_drained and (reason or call.is_leaving):
                del self._calls[name]
                self._remote.forget(call.host)
        return failed

    def leave(self, needed: Collection[str]) -> None:
        """Let go of the hosts that are not needed."""
        for name, call in self._calls.items():
            if name not in needed and not call.is_leaving and not call.host.runs_any:
                call.is_leaving = True
                call.host.finish()

    def _fault_of(self, call: _Call, now_s: float) -> str:
        """Return why a host cannot take part; empty if it can, or it has not answered yet."""
        host = call.host
        if call.is_leaving:
            return ""
        if call.is_ready or host.loss:
            return host.loss
        host.call_again()
        if host.facts is not None:
            problem = problem_of(host)
            call.is_ready = not problem
            return problem
        assert self._reach is not None
        if now_s < call.since_s + self._reach.limit_s:
            return ""
        return f"no answer within {self._reach.limit_s:g} s" + (f"; {host.unreached}" if host.unreached else "")
