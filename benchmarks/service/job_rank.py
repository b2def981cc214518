# SPDX-License-Identifier: Apache-2.0
"""One rank of the jobs that `warm_start` and `bad_services` launch: trains a model of many small tensors.

`ringtune run -np N python -m benchmarks.service.job_rank STEPS [REPORTED_URL FOLDER]`. Rank 0 prints the median step in
milliseconds of the second half. With a URL it also reports a window each ten steps by the link that tuned jobs have, to
a service that may be anything, while the tuner itself is off.
"""

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import torch
from torch import nn

import ringtune.torch as hvd
from ringtune.console import Console
from ringtune.service_link import Job, service_link
from ringtune.tuner import RunSettings, SearchSpace, default_config, engine_parameters, make_designer, open_log
from ringtune.tuner.records import RunRecord, SampleRecord

LAYERS, WIDTH, BATCH_SIZE = 24, 96, 16
STEPS_PER_WINDOW = 10
KEY = {"hardware": "a" * 64, "model": "b" * 64, "layout": [2], "target": "ringtune", "surface_version": 1}


def model() -> nn.Module:
    """Return a model whose gradients are 48 tensors of 36 KiB and less."""
    return nn.Sequential(*(layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def reporter(url: str, folder: Path) -> Callable[[int, float], None]:
    """Return what reports a window to a service: from a thread, which first asks for a start, as tuning does."""
    space = SearchSpace(engine_parameters(), {})
    settings = RunSettings(key=KEY, layout={"ranks_per_host": [2]})
    link = service_link(url, None, folder, Console(rank=0))
    designer = make_designer("gp", space, 0, ())
    run_id, config = uuid.uuid4().hex, default_config().to_json()
    windows: SimpleQueue[tuple[int, float]] = SimpleQueue()

    def work() -> None:
        link.with_start(designer, Job(settings, space))
        log = link.reporting(open_log(None))
        header = {"layout": {}, "versions": {}, "fixed": {}, "steps_budget": {}, "search_space": space.to_json()}
        log.write(RunRecord(0.0, run_id, 1, time.time(), None, KEY, baseline=config, seed=0, **header))
        while True:
            window, step_ms = windows.get()
            log.write(_sample(run_id, window, step_ms))

    threading.Thread(target=work, daemon=True).start()
    return lambda window, step_ms: windows.put((window, step_ms))


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


def main() -> None:
    """Train, and print the median step."""
    steps = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hvd.init()
    trained = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(trained.parameters(), lr=1e-3), named_parameters=trained.named_parameters()
    )
    report = reporter(sys.argv[2], Path(sys.argv[3])) if len(sys.argv) > 2 and hvd.rank() == 0 else None
    inputs = torch.randn(BATCH_SIZE, WIDTH)
    times_ms: list[float] = []
    for step in range(steps):
        begun_s = time.perf_counter()
        optimizer.zero_grad()
        trained(inputs).square().mean().backward()
        optimizer.step()
        times_ms.append(1e3 * (time.perf_counter() - begun_s))
        if report is not None and step % STEPS_PER_WINDOW == STEPS_PER_WINDOW - 1:
            report(step // STEPS_PER_WINDOW, median(times_ms[-STEPS_PER_WINDOW:]))
    if hvd.rank() == 0:
        late = times_ms[steps // 2 :]
        print(json.dumps({"median_step_ms": median(late), "steps_per_s": 1e3 * len(late) / sum(late)}))
    hvd.shutdown()


if __name__ == "__main__":
    main()
