# SPDX-License-Identifier: Apache-2.0
"""Trials of `ringtune tune --target deepspeed` in real DeepSpeed: two ranks on CPUs, over Gloo."""

import json
import re
import sys
from pathlib import Path

import pytest

from ringtune.tuning.command.any_command import command_engine, knobs_for
from ringtune.tuning.command.results import STEP_REPORT_RESULTS, relative_difference
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import Finished, ringtune, run_job
from tests.integration.ports import free_port

PROGRAM = REPOSITORY / "benchmarks" / "tuner" / "ranks" / "deepspeed_training.py"
ENVIRON = {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
IN_FORCE = re.compile(r"in force: stage=(\d) reduce_bucket_size=(\d+)")
BUCKET = 20_000
"""Elements per bucket in the user's file: each layer's weights are above it."""


def command_of(folder: Path, stage: int) -> tuple[str, ...]:
    """Return the command line of a job whose config file states a stage."""
    path = folder / "ds_config.json"
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "SGD", "params": {"lr": 0.05}},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": BUCKET},
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    return (*launcher, "--master-port", str(free_port()), str(PROGRAM), "--deepspeed_config", str(path))


def results_of(finished: Finished) -> list[float]:
    """Return the results that a launch has printed."""
    return [result for line in finished.stdout.splitlines() for result in STEP_REPORT_RESULTS.results_in(line)]


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        pytest.param(1, {"reduce_bucket_size": 1_000_000, "round_robin_gradients": True}, marks=pytest.mark.long),
        (3, {"reduce_bucket_size": 300_000, "stage3_param_persistence_threshold": 100}),
    ],
)
def test_deepspeed_takes_the_values_of_a_trial(tmp_path: Path, stage: int, changes: dict[str, int]) -> None:
    """The optimizer has the trial's bucket size, the steps are timed, and the loss is a number."""
    command = command_of(tmp_path, stage)
    before = (tmp_path / "ds_config.json").read_bytes()
    engine = command_engine("deepspeed", knobs_for("deepspeed", None), command)
    config = engine.space({}).validate(engine.baseline().replace(changes))
    (file,) = engine.trial_files(config, tmp_path / "trial", "")
    (tmp_path / "trial").mkdir()
    (tmp_path / "trial" / file.name).write_bytes(file.content)

    finished = run_job([*engine.command_of(config, tmp_path / "trial", command)], ENVIRON)

    assert 0 == finished.code, finished.text
    found = IN_FORCE.search(finished.stdout)
    assert found is not None, finished.text
    assert (stage, changes["reduce_bucket_size"]) == (int(found[1]), int(found[2]))
    assert 6 == finished.stdout.count("ringtune: step_ms=")
    (loss,) = results_of(finished)
    assert 0 < loss < 0.1
    assert before == (tmp_path / "ds_config.json").read_bytes()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_deepspeed_job_is_tuned(tmp_path: Path, stage: int) -> None:
    """The run comes to a verdict, with the losses compared; a winner's file has the stage of the user's."""
    options = ["--target", "deepspeed", "--output", str(tmp_path / "out"), "--max-samples", "5", "--pairs", "2"]

    finished = run_job(ringtune("tune", *options, "--", *command_of(tmp_path, stage)), ENVIRON, deadline_s=1700.0)

    assert 0 == finished.code, finished.text
    assert "results: compared with those of the defaults: 1 per launch, to 0.001" in finished.stdout
    assert "gave wrong results" not in finished.text
    spread = re.search(r"own spread over (\d+) launches is (\S+)", finished.stdout)
    assert spread is not None
    assert (True, 0.0) == (int(spread[1]) >= 3, relative_difference(float(spread[2]), 0.0))
    written = tmp_path / "out" / "ds_config.json"
    if "chosen: keeping default" not in finished.stdout:
        assert stage == json.loads(written.read_text("utf-8"))["zero_optimization"]["stage"]
