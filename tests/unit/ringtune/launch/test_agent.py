# SPDX-License-Identifier: Apache-2.0
"""A host agent that cannot start all of the ranks that it is ordered to start."""

import os
from collections.abc import Mapping
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.launch import local_ranks
from ringtune.launch.agent import Agent
from ringtune.launch.agent_protocol import STDERR, AgentReport, ReportDecoder, encode_order
from ringtune.launch.processes import RankCommand, RankProcess, start_rank

LAST_TO_START = 4


@pytest.fixture
def _only_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no rank above a number start, as a limit of the host would."""

    def start(command: RankCommand, rank: int, environment: Mapping[str, str]) -> RankProcess:
        if rank > LAST_TO_START:
            raise ConfigError(f"rank {rank} cannot be started (no more processes)")
        return start_rank(command, rank, environment)

    monkeypatch.setattr(local_ranks, "start_rank", start)


def reports_on(*orders: Mapping[str, Any]) -> list[AgentReport]:
    """Return all reports of an agent that gets orders and then the end."""
    (orders_end, launcher_orders), (launcher_reports, reports_end) = os.pipe(), os.pipe()
    os.write(launcher_orders, b"".join(map(encode_order, orders)))
    os.close(launcher_orders)
    try:
        Agent(orders_end, reports_end).run()
    finally:
        os.close(reports_end)
        os.close(orders_end)
    with os.fdopen(launcher_reports, "rb") as reports:
        return ReportDecoder().feed(reports.read())


def start_order(**fields: Any) -> dict[str, Any]:
    """Return the order to start ranks 3, 4 and 5."""
    shared = {"command": ["true"], "environment": {"RINGTUNE_WORLD_SIZE": "6"}, "job_key": "00", "streams": {}}
    return {"type": "start", "ranks": [3, 4, 5], **shared, **fields}


@pytest.mark.usefixtures("_only_some")
def test_a_worker_that_cannot_be_started_is_an_exit_of_its_own() -> None:
    """The others of an elastic job run on that host; the reason is a line of the worker's."""
    reports = reports_on(start_order(slots=3))

    messages = [report.message() for report in reports if report.kind == b"m"]
    (words,) = [report for report in reports if report.kind == STDERR]
    (started,) = [message for message in messages if message["type"] == "started"]
    assert (5, True) == (words.rank, b"rank 5 cannot be started (no more processes)" in words.payload)
    assert [3, 4] == started["ranks"]
    assert {"type": "exit", "rank": 5, "code": 126, "signal": 0} in messages


@pytest.mark.usefixtures("_only_some")
def test_a_fixed_job_fails_with_the_host_that_cannot_start_a_rank() -> None:
    """All ranks are needed."""
    reports = reports_on(start_order(place={"number": 0, "ranks_per_host": [6]}))

    messages = [report.message() for report in reports if report.kind == b"m"]
    assert ["rank 5 cannot be started (no more processes)"] == [m["text"] for m in messages if m["type"] == "failed"]
    assert "started" not in [message["type"] for message in messages]
