# SPDX-License-Identifier: Apache-2.0
"""Logs of a machine that gets slow in the middle of the search, pushed as a user pushes them."""

import json
import math
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import Config, RunSettings, SilentObserver, TuningRun, make_designer, open_log
from ringtune.tuner.testing import SyntheticTarget, flat_surface
from tests.integration.service_link.jobs import KEY, run_settings
from tests.integration.service_link.real_service import RealService

CLI = (sys.executable, "-m", "ringtune.cli")
JOBS = 2
GAIN = 0.4
SAMPLES = 10


def settings_of(model: str) -> RunSettings:
    """Return the settings of a new job whose model is made of one hex digit."""
    key = {**KEY, "model": model * 64, "layout": [2]}
    return run_settings(key=key, model_name=f"model {model}", max_samples=SAMPLES, run_id=uuid.uuid4().hex)


def tune(
    path: Path | None, settings: RunSettings, surface: Callable[[Config], float], slow: tuple[float, float]
) -> float:
    """Write the log of a real tuning run of a synthetic job; returns how long the job took, on its own clock.

    Args:
        path: The log's file; None keeps none.
        settings: Settings of the run.
        surface: ln of the step time in ms that a config has.
        slow: Second from which the machine is slower, and the factor.
    """
    begin_s, factor = slow

    def drifting(config: Config) -> float:
        return surface(config) + (math.log(factor) if target.now_s > begin_s else 0.0)

    target = SyntheticTarget(surface=drifting, seed=3)
    designer = make_designer("gp", target.space(), 0)
    log = open_log(path)
    TuningRun(target, designer, settings, log, SilentObserver(), clock=target.clock).run()
    log.close()
    return target.now_s


def recommended(service: RealService, logs: list[Path], model: str) -> Any:
    """Push logs and return the recommendation of `ringtune recommend` then."""
    address = ("--service-url", service.url)
    subprocess.run([*CLI, "push", *map(str, logs), *address], check=True, timeout=120, capture_output=True)
    query = ("--model", f"model {model}", "--world-size", "2", "--hardware", str(KEY["hardware"]), "--format", "json")
    finished = subprocess.run([*CLI, "recommend", *query, *address], check=True, timeout=120, capture_output=True)
    return json.loads(finished.stdout)


@pytest.mark.parametrize(("model", "factor"), [("a", 2.0), ("b", 4.0)])
def test_a_slow_down_half_way_becomes_no_recommendation_with_a_gain(model: str, factor: float, tmp_path: Path) -> None:
    """Knobs without an effect are not said to gain, though half of the windows are several times faster."""
    half_s = 0.5 * tune(None, settings_of(model), flat_surface, (math.inf, 1.0))
    logs = [tmp_path / f"{number}.jsonl" for number in range(JOBS)]
    for log in logs:
        tune(log, settings_of(model), flat_surface, (half_s, factor))
    service = RealService(tmp_path)
    service.start()

    try:
        offer = recommended(service, logs, model)
    finally:
        service.kill()

    steps = [json.loads(line)["step_ms"]["median"] for log in logs for line in log.open() if '"sample"' in line]
    assert max(steps) > 0.9 * factor * min(steps)
    assert "default" == offer["standing"]
    assert [None] * 3 == [offer["evidence"][name] for name in ("speedup", "ci_low", "ci_high")]


def test_a_true_gain_on_a_steady_machine_is_recommended(tmp_path: Path) -> None:
    """The same way from log to recommendation ends in a confirmed gain, where two jobs' paired tests show one."""

    def surface(config: Config) -> float:
        return flat_surface(config) - (0.0 if config["response_cache"] else GAIN)

    logs = [tmp_path / f"{number}.jsonl" for number in range(JOBS)]
    for log in logs:
        tune(log, settings_of("d"), surface, (math.inf, 1.0))
    service = RealService(tmp_path)
    service.start()

    try:
        offer = recommended(service, logs, "d")
    finally:
        service.kill()

    assert ("exact", "confirmed", JOBS) == (offer["source"], offer["standing"], offer["evidence"]["adopted"])
    assert pytest.approx(math.expm1(GAIN), abs=0.05) == offer["evidence"]["speedup"]
