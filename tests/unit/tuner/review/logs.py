# SPDX-License-Identifier: Apache-2.0
"""Logs for the review's tests: runs of the real tuner on a target with a known surface, and foreign logs as text."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import RunSettings, make_designer, open_log
from ringtune.tuner.review import RunReview, review_log
from ringtune.tuner.testing import SyntheticTarget, poor_baseline
from tests.unit.tuner.recording import Outcome, tune

HOROVOD_LOGS = Path(__file__).resolve().parents[5] / "shared" / "data" / "horovod_logs"
HOROVOD = """\
hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,tensor_fusion_threshold,score
0,0,0, 1,5,4,441.603
0,0,0, 1,50,32,218.998
0,0,0, 1,25,16,208.977
0,0,0, 1,10,8,304.484
0,0,0, 1,5.103,4.04949,538.131
0,0,0, 1,77.2407,15.9155,168.461
0,0,0, 1,5.103,4.04949,538.131
"""
BAGUA = """\
bucket_size_2p,is_hierarchical_reduce,score,train_iter
23,False,-inf,100
23,False,1.25,200
27,1,1.75,300
16,0,0.5,400
25,True,1.5,500
"""


def logged(path: Path, run_id: str = "a", target: SyntheticTarget | None = None, **settings: Any) -> Outcome:
    """Append a run of the random designer, or of `designer`, to a log; by default from a poor baseline."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=1) if target is None else target
    designer = make_designer(settings.pop("designer", "random"), target.space(), 0)
    log = open_log(path)
    outcome = tune(target, designer, RunSettings(run_id=run_id, **settings), log)
    log.close()
    return outcome


def reviewed(path: Path, text: str) -> RunReview:
    """Write a log of one run, and return its review."""
    path.write_text(text)
    (run,) = review_log(path).runs
    return run


def horovod_logs() -> list[Path]:
    """Return real logs of Horovod, or skip the test where they are not there."""
    logs = sorted(HOROVOD_LOGS.glob("*.csv"))
    if not logs:
        pytest.skip("no shared/data/horovod_logs beside the repository: these are real logs, and stay out of it")
    return logs


def drifting_target(speed: Callable[[SyntheticTarget], float], **arguments: Any) -> SyntheticTarget:
    """Return a target from a poor baseline, on a machine whose ln(step time) rises by `speed` of the target."""
    target = SyntheticTarget(baseline=poor_baseline(), **arguments)
    surface = target._surface
    target._surface = lambda config: surface(config) + speed(target)
    return target
