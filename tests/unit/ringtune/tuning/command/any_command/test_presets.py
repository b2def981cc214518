# SPDX-License-Identifier: Apache-2.0
"""The knob files of the package: DeepSpeed's by stage, and Megatron's against the rules of its argument parser."""

import argparse
import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import SpaceError
from ringtune.tuning.command.any_command import command_engine, knobs_for
from ringtune.tuning.command.engines import Engine
from ringtune.tuning.command.results import ResultPattern
from ringtune.tuning.command.scores import LineScore

OUT = Path("/out")
ZERO = "zero_optimization"
OF_STAGES_1_2 = {"reduce_bucket_size", "overlap_comm", "round_robin_gradients"}
OF_STAGE_3 = {
    "reduce_bucket_size",
    "overlap_comm",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
    "stage3_max_live_parameters",
    "stage3_max_reuse_distance",
}
SWITCHES = (
    "--overlap-grad-reduce",
    "--overlap-param-gather",
    "--ddp-average-in-collective",
    "--ddp-pad-buckets-for-high-nccl-busbw",
    "--no-align-grad-reduce",
    "--no-align-param-gather",
    "--use-distributed-optimizer",
    "--use-megatron-fsdp",
)
"""Switches as `megatron/training/arguments.py` declares them."""
NUMBERS = ("--ddp-num-buckets", "--ddp-bucket-size", "--num-layers-per-virtual-pipeline-stage", "--train-iters")


def deepspeed_engine(zero: object, command: str = "deepspeed train.py --deepspeed_config ds.json") -> Engine:
    """Return the engine of a command whose config file, in the working directory, has this section."""
    Path("ds.json").write_text(json.dumps({"train_batch_size": 8, ZERO: zero}), encoding="utf-8")
    return command_engine("deepspeed", knobs_for("deepspeed", None), shlex.split(command))


@pytest.mark.parametrize(("stage", "names"), [(1, OF_STAGES_1_2), (2, OF_STAGES_1_2), (3, OF_STAGE_3)])
def test_the_stage_of_the_file_decides_the_knobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: int, names: set[str]
) -> None:
    """No trial changes anything but the section's knobs: neither the stage nor the batch."""
    monkeypatch.chdir(tmp_path)
    engine = deepspeed_engine({"stage": stage, "reduce_bucket_size": 5e8})
    rng = np.random.default_rng(1)

    assert names == {knob.name for knob in engine.knobs}
    assert (stage == 3, 500_000_000) == (engine.baseline()["overlap_comm"], engine.baseline()["reduce_bucket_size"])
    for _ in range(50):
        config = engine.space({}).random(rng)
        files = {file.name: json.loads(file.content) for file in engine.trial_files(config, OUT, "")}
        written = files.get("ds.json", {"train_batch_size": 8, ZERO: {"stage": stage}})
        assert (8, stage) == (written["train_batch_size"], written[ZERO]["stage"])
        assert set(written[ZERO]) <= {"stage", *names}
        assert all(config[name] == value for name, value in written[ZERO].items() if name in names and name in config)


def test_auto_of_transformers_is_a_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word stays in the file until a trial puts a number in its place."""
    monkeypatch.chdir(tmp_path)
    command = "torchrun run.py --deepspeed ds.json"
    engine = deepspeed_engine({"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": True}, command)

    config = engine.baseline().replace({"stage3_prefetch_bucket_size": 2_000_000})
    (file,) = engine.trial_files(config, OUT, "")

    assert "auto" == engine.baseline()["reduce_bucket_size"]
    assert "auto" == json.loads(file.content)[ZERO]["reduce_bucket_size"]
    assert ("torchrun", "run.py", "--deepspeed", "/out/ds.json") == engine.command_of(config, OUT, command.split())
    assert engine.space({}).contains(config.replace({"reduce_bucket_size": 10_000_000}))


@pytest.mark.parametrize(
    ("zero", "command", "said"),
    [
        ({"stage": 0}, "deepspeed t.py --deepspeed_config ds.json", "zero_optimization.stage is 0 in ds.json, and red"),
        ({}, "deepspeed t.py --deepspeed_config ds.json", "zero_optimization.stage is missing in ds.json"),
        (True, "deepspeed t.py --deepspeed_config ds.json", "zero_optimization.stage is missing in ds.json"),
        ({"stage": 1}, "deepspeed t.py", "no file after --deepspeed_config or --deepspeed or --deepspeed_config_file"),
        ({"stage": 1}, "deepspeed t.py --deepspeed --x 1", "the command names no file after --deepspeed_config"),
    ],
)
def test_a_job_without_such_knobs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zero: object, command: str, said: str
) -> None:
    """Before anything is launched."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match=f"--target deepspeed: .*{said}"):
        deepspeed_engine(zero, command)


def megatron_options(command: list[str]) -> argparse.Namespace:
    """Return a command's options as Megatron's parser reads them, if its rules allow it."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for switch in SWITCHES:
        parser.add_argument(switch, action="store_true")
    for number in NUMBERS:
        parser.add_argument(number, type=int)
    options = parser.parse_args(command[command.index("pretrain_gpt.py") + 1 :])
    if options.overlap_param_gather:
        assert options.use_distributed_optimizer or options.use_megatron_fsdp
        assert options.overlap_grad_reduce
    if options.ddp_num_buckets is not None:
        assert options.ddp_bucket_size is None
        assert options.ddp_num_buckets > 0
    return options


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("", {"overlap_grad_reduce", "ddp_bucket_size", "ddp_average_in_collective"}),
        ("--overlap-grad-reduce --ddp-num-buckets 4", {"ddp_num_buckets"}),
        ("--use-distributed-optimizer", {"overlap_param_gather", "ddp_pad_buckets_for_high_nccl_busbw"}),
        ("--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size=5000000", set()),
        ("--use-megatron-fsdp --num-layers-per-virtual-pipeline-stage 2", {"align_grad_reduce", "align_param_gather"}),
    ],
)
def test_megatron_accepts_every_command_line(given: str, names: set[str]) -> None:
    """Flags that need others come with them alone; the user's options that are no knobs stay."""
    command = ["torchrun", "--nproc-per-node", "8", "pretrain_gpt.py", *given.split(), "--train-iters", "20"]
    engine = command_engine("megatron", knobs_for("megatron", None), command)
    rng = np.random.default_rng(2)

    assert names <= {knob.name for knob in engine.knobs}
    assert tuple(command) == engine.command_of(engine.baseline(), OUT, command)
    seen = set()
    for _ in range(200):
        config = engine.effective(engine.space({}).random(rng))
        options = megatron_options([*engine.command_of(config, OUT, command)])
        assert ("--use-distributed-optimizer" in given, 20) == (options.use_distributed_optimizer, options.train_iters)
        assert bool(config["overlap_grad_reduce"]) == options.overlap_grad_reduce
        seen.add((options.overlap_grad_reduce, options.overlap_param_gather, options.ddp_average_in_collective))
    assert len(seen) >= 4


def test_megatrons_own_lines_are_score_and_result() -> None:
    """The line is one of its training loop."""
    knobs = knobs_for("megatron", None)
    line = " iteration 5/20 | elapsed time per iteration (ms): 1005.2 | lm loss: 1.084562E+01 | grad norm: 2.1 |"

    assert [1005.2] == LineScore.of(knobs.score_regex or "", higher_is_better=False).times_ms(line)
    assert [10.84562] == ResultPattern.of(knobs.result_regex).results_in(line)


def test_stages_have_no_size_out_of_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of the file beyond the range stays possible as the default, and no other beyond it is."""
    monkeypatch.chdir(tmp_path)
    engine = deepspeed_engine({"stage": 1, "reduce_bucket_size": 5e10})

    assert 50_000_000_000 == engine.baseline()["reduce_bucket_size"]
    with pytest.raises(SpaceError):
        engine.space({}).validate(engine.baseline().replace({"reduce_bucket_size": 5_000_000_000}))
