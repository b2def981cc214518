# SPDX-License-Identifier: Apache-2.0
"""One rank of the job that `bad_services` launches: trains in blocks, beside a service and without one by turns.

Its command is `ringtune run -np N python -m benchmarks.service.ranks.blocks FOLDER PAIRS BLOCK_S [URL]`. In one block
of each pair, in random order, rank 0 asks the service for a start and reports a window every ten steps, over a new link
like that of a tuned job. The tuner is off. Rank 0 prints the steps per second of each pair's blocks, the one beside the
service first. Without a URL no block has a service: the ratios are the method's noise.
"""

import json
import random
import sys
import threading
import time
import uuid
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

import ringtune.torch as hvd
from benchmarks.service.engine_jobs.training import COMPUTING, ModelSteps
from ringtune.measuring.bench.surface_rank import agree
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.system.console import Console
from ringtune.tuner import RunSettings, SearchSpace, default_config, engine_parameters, make_designer
from ringtune.tuner.logs.records import RunRecord, SampleRecord
from ringtune.tuning.service_link import ServiceJob, service_link

STEPS_PER_WINDOW = 10
FIRST_STEPS = 50
SETTLE_STEPS = 5
"""Between two blocks: the end of a link holds one rank up, as the end of a job does."""
KEY = {"hardware": "a" * 64, "model": "b" * 64, "layout": [2], "target": "ringtune", "surface_version": 1}
Windows = SimpleQueue[tuple[int, float] | None]


class WindowReporter:
    """Reports windows to a service from a thread, which first asks for a start, as tuning does."""

    def __init__(self, url: str, folder: Path) -> None:
        """Begin."""
        self._space = SearchSpace(engine_parameters(), {})
        self._link = service_link(url, None, folder, Console(rank=0))
        self._windows: Windows = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def report(self, window: int, step_ms: float) -> None:
        """Report a window's median step, and return at once."""
        self._windows.put((window, step_ms))

    def close(self) -> None:
        """End as a job does: reports that cannot be delivered at once stay behind."""
        self._windows.put(None)
        self._thread.join()
        self._link.close()

    def _work(self) -> None:
        settings = RunSettings(key=KEY, layout={"ranks_per_host": [2]})
        self._link.with_start(make_designer("gp", self._space, 0, ()), ServiceJob(settings, self._space))
        log = self._link.report_log()
        run_id, config = uuid.uuid4().hex, default_config().to_json()
        header: dict[str, Any] = {
            "layout": {},
            "versions": {},
            "fixed": {},
            "steps_budget": {},
            "search_space": self._space.to_json(),
        }
        log.write(RunRecord(0.0, run_id, 1, time.time(), None, KEY, baseline=config, seed=0, **header))
        while (found := self._windows.get()) is not None:
            log.write(_sample(run_id, *found))


def _sample(run_id: str, window: int, step_ms: float) -> SampleRecord:
    times = {"median": step_ms, "mad": 0.1, "mean": step_ms}
    return SampleRecord(
        t_s=0.0,
        run_id=run_id,
        trial_id=window,
        window=window,
        phase="search",
        epoch=1,
        config=default_config().to_json(),
        score_bytes_per_s=1e9,
        step_ms=times,
        steps=STEPS_PER_WINDOW,
        valid=True,
        reason=None,
    )


def block(training: ModelSteps, windows: int, reporter: WindowReporter | None) -> float:
    """Train and return the steps per second; on rank 0, and beside a service, with a reporter."""
    training.run(SETTLE_STEPS)
    begun_s = time.perf_counter()
    for window in range(windows):
        step_ms = training.run(STEPS_PER_WINDOW)
        if reporter is not None:
            reporter.report(window, median(step_ms))
    return windows * STEPS_PER_WINDOW / (time.perf_counter() - begun_s)


def main() -> None:
    """Train, and print the pairs."""
    folder, pairs, block_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    url = sys.argv[4] if len(sys.argv) > 4 else None
    hvd.init()
    training = ModelSteps(COMPUTING)
    usual_ms = median(training.run(FIRST_STEPS))
    windows = agree(world_of(global_process_set), max(1, round(1e3 * block_s / usual_ms / STEPS_PER_WINDOW)))
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    found: list[list[float]] = []
    for _ in range(pairs):
        per_s = {}
        for is_beside in order.sample([True, False], 2):
            is_reporting = is_beside and hvd.rank() == 0
            reporter = WindowReporter(url, folder) if is_reporting and url is not None else None
            per_s[is_beside] = block(training, windows, reporter)
            if reporter is not None:
                reporter.close()
        found.append([per_s[True], per_s[False]])
    if hvd.rank() == 0:
        print(json.dumps({"steps_per_s": found}))
    hvd.shutdown()


if __name__ == "__main__":
    main()
