# SPDX-License-Identifier: Apache-2.0
"""Ray Tune drives trials that tune: they take turns, and each goes on from the samples of those before."""

from itertools import pairwise
from pathlib import Path

import pytest
from ray import tune

from ringtune.ray import RayExecutor
from ringtune.tuner import read_log
from tests.platforms.ray_cluster import rank_functions

pytestmark = pytest.mark.usefixtures("cluster")

TRIALS = 4
SECONDS = 6.0
SETTINGS = {
    "AUTOTUNE": "1",
    "AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=5",
    "AUTOTUNE_STEPS_PER_SAMPLE": "10",
    "AUTOTUNE_WARMUP_STEPS": "10",
}


@pytest.mark.long
def test_trials_of_ray_tune_take_turns_and_learn_from_each_other(tmp_path: Path) -> None:
    """Two trials of two ranks at a time, with one log, one lock and one cache."""
    shared = {
        "AUTOTUNE_CACHE": str(tmp_path / "studies.jsonl"),
        "AUTOTUNE_LOCK": str(tmp_path / "tuning.lock"),
        "AUTOTUNE_LOG": str(tmp_path / "tuning.jsonl"),
    }

    def trial(config: dict[str, float]) -> None:
        with RayExecutor(num_workers=2) as executor:
            executor.start(extra_env_vars={**SETTINGS, **shared})
            losses = executor.run(rank_functions.tune_a_while, [config["rate"], SECONDS])
        tune.report({"loss": losses[0]})

    results = tune.Tuner(
        tune.with_resources(trial, tune.PlacementGroupFactory([{"CPU": 1}] * 3)),
        param_space={"rate": tune.grid_search([0.001, 0.003, 0.01, 0.03])},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()

    assert (TRIALS, 0) == (len(results), results.num_errors)
    log = read_log(tmp_path / "tuning.jsonl")
    assert 0 == log.bad_line_count
    assert len(log.runs) >= 2
    begins = [run.run.begins_with if run.run is not None else None for run in log.runs]
    assert all(begins[1:]), begins
    searches = sorted(
        (run.run.unix_time_s + run.samples[0].t_s, run.run.unix_time_s + run.samples[-1].t_s)
        for run in log.runs
        if run.run is not None and run.samples
    )
    assert all(end <= begin + 0.5 for (_, end), (begin, _) in pairwise(searches)), searches
