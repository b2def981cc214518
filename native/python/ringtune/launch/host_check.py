# SPDX-License-Identifier: Apache-2.0
"""Before any rank starts: is every host reached, and does it have the same ringtune and Python? One error names all."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.errors import ConfigError

from . import agent_protocol
from .agent_protocol import Message
from .remote_host import RemoteHost

QUIET_S = 2.0  # hosts that answer within it need no line that says who is waited for


@dataclass(frozen=True)
class HostCheck:
    """The hosts that must answer, and until when.

    Attributes:
        hosts: Every other host of the job.
        limit_s: Time limit of all answers, seconds.
        start_s: When they were called, on the monotonic clock.
    """

    hosts: Sequence[RemoteHost]
    limit_s: float
    start_s: float

    def waiting(self) -> list[str]:
        """Return the names of the hosts that have neither answered nor failed."""
        return [host.name for host in self.hosts if host.facts is None and not host.loss]

    def is_over(self) -> bool:
        """Return whether every host has answered or was lost, or the time is up."""
        return not self.waiting() or time.monotonic() >= self.start_s + self.limit_s

    def call_again(self) -> None:
        """Call the hosts again that were not reached: they may be starting, as containers and virtual machines do."""
        for host in self.hosts:
            host.call_again()

    def absence(self) -> str:
        """Return a line that names the unreached hosts with reasons; empty at first, and when all are reached."""
        unreached = [f"{host.name}: {host.unreached}" for host in self.hosts if host.unreached and not host.loss]
        if time.monotonic() - self.start_s < QUIET_S or not unreached:
            return ""
        return (
            f"ringtune run: {'; '.join(unreached)}. Such hosts are called again for up to {self.limit_s:.0f} s in all "
            "(--start-timeout)"
        )

    def progress(self) -> str:
        """Return a line that names the awaited hosts; empty at first, and when there are none."""
        elapsed_s = time.monotonic() - self.start_s
        waiting = self.waiting()
        if elapsed_s < QUIET_S or not waiting:
            return ""
        return f"ringtune run: waiting for {', '.join(waiting)} ({elapsed_s:.0f} s of {self.limit_s:.0f})"

    def conclude(self) -> None:
        """Return if all hosts can take part.

        Raises:
            ConfigError: Naming every host that cannot, and why.
        """
        for host in self.hosts:
            if host.facts is None:
                host.abandon(f"no answer within {self.limit_s:.0f} s", limit_s=0)
        problems = [f"{host.name}: {problem}" for host in self.hosts if (problem := problem_of(host))]
        if problems:
            raise ConfigError(
                f"{len(problems)} of {len(self.hosts)} other hosts cannot take part, nothing was started. "
                f"{'; '.join(problems)}. Check each with: ssh HOST true, or with what --rsh names"
            )


def problem_of(host: RemoteHost) -> str:
    """Return why a host cannot take part; empty if it can."""
    return host.loss or (_difference(host.facts) if host.facts is not None else "no answer")


def _difference(facts: Message) -> str:
    for name, ours in agent_protocol.identity().items():
        if facts.get(name) != ours:
            return f"has {name} {facts.get(name)} where this machine has {ours}; install the same on both"
    return str(facts.get("objection", ""))
