# SPDX-License-Identifier: Apache-2.0
"""Elastic training of real workers under a rendezvous server: losses, newcomers, random histories, the tuner."""

import json
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ringtune.meeting.rendezvous.roster import RangeRoster
from ringtune.meeting.rendezvous.server import Patience
from tests.integration.elastic_histories import History, run_history
from tests.integration.forked_ranks import Forked, ForkedProcess
from tests.integration.jobs import DEADLINE_S, Finished, JobOf, forked, started_by_fork
from tests.integration.rendezvous_servers import Served, joining, served

SHORT, LONG = 6, 200
QUIET_S = 1.0
PATIENCE = Patience(meeting_s=DEADLINE_S, grace_s=DEADLINE_S)


def wait_for_steps(folder: Path, count: int) -> None:
    """Wait until rank 0 has trained so many steps."""
    steps, end_s = folder / "steps", time.monotonic() + DEADLINE_S
    while not steps.exists() or steps.stat().st_size < count:
        assert time.monotonic() < end_s, f"fewer than {count} steps"
        time.sleep(0.01)


def lost_and_replaced(
    command: Forked, folder: Path, environ: Mapping[str, str], steps: tuple[int, int]
) -> list[Finished]:
    """Run three workers, kill one after some steps, add one after some more; return the ends of the others.

    Args:
        command: Program of a worker.
        folder: Folder in which rank 0 counts its steps.
        environ: Further variables.
        steps: Steps of rank 0 after which a worker is killed, and one is added.
    """
    with served(RangeRoster(1, 4, QUIET_S), patience=PATIENCE) as server, ExitStack() as stack:
        workers = [_worker(stack, command, server, environ) for _ in range(3)]
        wait_for_steps(folder, steps[0])
        workers.pop(1).process.kill()
        wait_for_steps(folder, steps[1])
        workers.append(_worker(stack, command, server, environ))
        return [worker.wait() for worker in workers]


def _worker(stack: ExitStack, command: Forked, server: Served, environ: Mapping[str, str]) -> JobOf[ForkedProcess]:
    return stack.enter_context(started_by_fork(command, joining(server.address, **environ)))


def reports(ends: list[Finished]) -> list[dict[str, Any]]:
    """Return the workers' last lines; all must have ended well."""
    assert [0] * len(ends) == [end.code for end in ends], "\n".join(end.text for end in ends)
    return [json.loads(end.stdout.splitlines()[-1]) for end in ends]


def test_a_program_for_horovod_runs_by_its_import_line(tmp_path: Path) -> None:
    """The calls of Horovod's elastic examples train through a loss and a newcomer, alike on all ranks."""
    found = reports(lost_and_replaced(forked("horovod_elastic", str(tmp_path)), tmp_path, {}, (6, 14)))

    assert all(report == found[0] for report in found)
    sizes = found[0]["sizes"]
    assert [3, 2, 3] == [size for place, size in enumerate(sizes) if place == 0 or size != sizes[place - 1]]
    assert (3.0, 0.03) == (found[0]["mean"], found[0]["rate"])


def test_the_tuner_goes_on_with_what_it_has_learned(tmp_path: Path) -> None:
    """A tuned job survives both changes; back at its first size the search begins with the samples from there."""
    cache = tmp_path / "cache.jsonl"
    tuning = {
        "AUTOTUNE": "1",
        "AUTOTUNE_CACHE": str(cache),
        "AUTOTUNE_WARMUP_STEPS": "5",
        "AUTOTUNE_STEPS_PER_SAMPLE": "5",
        "AUTOTUNE_MAX_SAMPLES": "8",
    }
    ends = lost_and_replaced(forked("elastic_worker", str(tmp_path), "60", "1"), tmp_path, tuning, (100, 200))

    found = reports(ends)
    assert 1 == len({report["digest"] for report in found})
    assert [3, 2, 3] == found[0]["worlds"]
    lines = [line for end in ends for line in end.stderr.splitlines() if "ringtune autotune:" in line]
    begun = [line for line in lines if "the search begins with the samples of" in line]
    assert begun, "\n".join(lines)
    assert cache.stat().st_size > 0


@pytest.mark.parametrize(
    "seed", [*range(SHORT), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(SHORT, LONG))]
)
def test_a_random_history_ends_with_the_weights_of_its_replay(tmp_path: Path, seed: int) -> None:
    """Each worker checks its weights against a replay of the committed batches; all of them end with the same."""
    outcome = run_history(History.drawn(seed), tmp_path, [])

    assert outcome.finished > 0
