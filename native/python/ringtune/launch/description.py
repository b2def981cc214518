# SPDX-License-Identifier: Apache-2.0
"""Description of a launch for `--verbose`. Pure but for the question which names are this machine."""

from collections.abc import Iterator

from ringtune.system.counts import counted

from .addresses import is_this_machine
from .job_loop import Reach
from .plan import LaunchPlan
from .remote_shell import agent_command


def describe(plan: LaunchPlan, reach: Reach | None) -> Iterator[str]:
    """Yield a line for each fact: the ranks' hosts, the way to other hosts, the variables that go there.

    Args:
        plan: The job.
        reach: Remote shell for other hosts; None where none was named.
    """
    yield f"{counted(plan.world_size, 'rank')} in {plan.directory}"
    remote = []
    for share in plan.shares:
        ranks = f"rank {share.ranks[0]}" if len(share.ranks) == 1 else f"ranks {share.ranks[0]} to {share.ranks[-1]}"
        is_here = reach is None or is_this_machine(share.host)
        yield f"{ranks} on {share.host}, {'this machine' if is_here else 'another host'}"
        if not is_here:
            remote.append(share.host)
    if reach is None or not remote:
        return
    for host in remote:
        yield f"{host} is called by: {' '.join(reach.shell.command_on(host, agent_command(plan.environment)))}"
    yield f"variables that go to other hosts: {', '.join(sorted(plan.forwarded_from(0)))}"
