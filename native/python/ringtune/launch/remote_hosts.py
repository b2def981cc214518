# SPDX-License-Identifier: Apache-2.0
"""All other hosts of a job together: called at once, kept awake, and let go."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ringtune.system.event_loop import EventLoop

from . import agent_protocol
from .hosts import HostShare
from .rank_streams import OutputTaker
from .remote_host import RemoteHost
from .remote_shell import RemoteShell

NEVER_S = float("inf")


class RemoteHosts:
    """The hosts, none at first. Iterating gives them in the order of their ranks."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._hosts: list[RemoteHost] = []
        self._next_beat_s = NEVER_S
        self.left_alone: list[RemoteHost] = []

    def __iter__(self) -> Iterator[RemoteHost]:
        return iter(self._hosts)

    @property
    def is_drained(self) -> bool:
        """True if no more reports will come from any."""
        return all(host.is_drained for host in self._hosts)

    @property
    def have_orders(self) -> bool:
        """True if orders wait to be written."""
        return any(host.has_orders for host in self._hosts)

    def call(
        self,
        shares: Sequence[HostShare],
        shell: RemoteShell,
        agent: Sequence[str],
        check: Mapping[str, Any],
        output: OutputTaker,
    ) -> list[RemoteHost]:
        """Start an agent on each host and ask it for its facts.

        Args:
            shares: The hosts and their ranks.
            shell: Runs commands on the hosts.
            agent: Command that starts the agent on a host.
            check: The fields of the check order.
            output: Takes the ranks' output.

        Raises:
            ConfigError: If the remote shell cannot be started.
        """
        limits = {"beat_s": agent_protocol.BEAT_S, "silence_s": agent_protocol.SILENCE_S}
        self._next_beat_s = min(self._next_beat_s, time.monotonic() + agent_protocol.BEAT_S)
        called = []
        for share in shares:
            host = RemoteHost(self._loop, share, shell, agent, output)
            self._hosts.append(host)
            called.append(host)
            host.check({**limits, **check})
        return called

    def forget(self, host: RemoteHost) -> None:
        """Leave out a host whose connection has ended."""
        self._hosts.remove(host)
        if not self._hosts:
            self._next_beat_s = NEVER_S

    def seconds_to_beat(self) -> float:
        """Return the seconds until `beat` is due; infinity without agents that listen."""
        return max(0.0, self._next_beat_s - time.monotonic())

    def beat(self) -> bool:
        """Tell the agents that the launcher lives, if it is time; return whether it was."""
        if self.seconds_to_beat() > 0.0:
            return False
        self._next_beat_s = time.monotonic() + agent_protocol.BEAT_S
        for host in self._hosts:
            host.order("beat")
        return True

    def announce_pause(self) -> None:
        """Tell the agents that the launcher will be silent and yet live; no beat follows."""
        self._next_beat_s = NEVER_S
        for host in self._hosts:
            host.order("pause")

    def resume(self) -> None:
        """Beat again at once, and blame no host for silence meanwhile."""
        self._next_beat_s = time.monotonic()
        for host in self._hosts:
            host.forgive_silence()

    def judge_silence(self) -> None:
        """Give up the hosts that were silent for too long."""
        for host in self._hosts:
            host.judge_silence()

    def finish(self) -> None:
        """Let the agents clear up and end; a host that has not answered is not waited for."""
        for host in self._hosts:
            if host.facts is None:  # an agent that comes up yet finds nobody, and ends
                host.abandon("it was not waited for", limit_s=0)
            host.finish()

    def leave_alone(self) -> None:
        """Wait no longer for hosts that have not confirmed their end; they are listed in `left_alone`."""
        self.left_alone += [host for host in self._hosts if not host.is_drained]
        for host in self._hosts:
            host.abandon("it did not confirm that its ranks were killed", limit_s=0)
