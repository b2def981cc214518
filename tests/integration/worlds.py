# SPDX-License-Identifier: Apache-2.0
"""Starts ranks by hand, each with its own command line and environment, and reads where they say that they are."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.integration.forked_ranks import Forked
from tests.integration.hosts import Host
from tests.integration.jobs import DEADLINE_S, Finished, Job, program, started, started_by_fork

KEY = "ab" * 32


def explicit(rank: int, world_size: int, address: str, **changes: str) -> dict[str, str]:
    """Return the variables of a rank without a launcher."""
    return {
        "RINGTUNE_RANK": str(rank),
        "RINGTUNE_WORLD_SIZE": str(world_size),
        "RINGTUNE_RENDEZVOUS": address,
        "RINGTUNE_JOB_KEY": KEY,
        "RINGTUNE_TIMEOUT_S": str(DEADLINE_S),
        **changes,
    }


@contextmanager
def running(commands: Sequence[Sequence[str]], environs: Sequence[Mapping[str, str]]) -> Iterator[list[Job]]:
    """Run a job of several ranks, given by their command lines and environments."""
    with ExitStack() as stack:
        pairs = zip(commands, environs, strict=True)
        yield [stack.enter_context(started(command, environ)) for command, environ in pairs]


def run_all(
    commands: Sequence[Sequence[str]], environs: Sequence[Mapping[str, str]], *, deadline_s: float = DEADLINE_S
) -> list[Finished]:
    """Run a job of several ranks to its end."""
    with running(commands, environs) as jobs:
        return [job.wait(deadline_s) for job in jobs]


def run_all_forked(
    commands: Sequence[Forked], environs: Sequence[Mapping[str, str]], *, deadline_s: float = DEADLINE_S
) -> list[Finished]:
    """Run a job of several forked ranks to its end."""
    with ExitStack() as stack:
        pairs = zip(commands, environs, strict=True)
        jobs = [stack.enter_context(started_by_fork(command, environ)) for command, environ in pairs]
        return [job.wait(deadline_s) for job in jobs]


def on_hosts(made: Sequence[Host], ranks_per_host: int, *arguments: str) -> list[list[str]]:
    """Return the command lines of `where` with several ranks on each host, host by host."""
    return [host.command(*program("where", *arguments)) for host in made for _ in range(ranks_per_host)]


def places(finished: Sequence[Finished]) -> list[dict[str, Any]]:
    """Return each rank's output, by rank; every rank must have ended well."""
    for rank in finished:
        assert 0 == rank.code, rank.text
    lines = [line for rank in finished for line in rank.stdout.splitlines() if line.startswith("{")]
    return sorted((json.loads(line) for line in lines), key=lambda place: place["rank"])


def check_places(found: Sequence[Mapping[str, Any]], hosts: Sequence[int], carrier: str) -> None:
    """Every rank is where it should be, and all have added up right."""
    assert list(range(len(hosts))) == [place["rank"] for place in found]
    for rank, place in enumerate(found):
        local = [other for other, host in enumerate(hosts) if host == hosts[rank]]
        assert [local.index(rank), len(local)] == place["local"], place
        assert [hosts[rank], max(hosts) + 1] == place["cross"], place
        assert (len(hosts), carrier) == (place["size"], place["carrier"]), place
        assert sum(range(len(hosts))) == place["total"], place
