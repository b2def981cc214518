# SPDX-License-Identifier: Apache-2.0
"""Pages of people's own frameworks: their commands run, tune, and end with the weights of one plain process."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from ringtune.tuner import read_log
from tests.e2e.documented_commands import blocks_of, script_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import clean_environment

HOWTO = REPOSITORY / "docs" / "howto"
LIMIT_S = 400.0
BUDGET = {"AUTOTUNE_MAX_SAMPLES": "3", "AUTOTUNE_WARMUP_STEPS": "10", "AUTOTUNE_STEPS_PER_SAMPLE": "5"}
ALONE = {"AUTOTUNE_LOCK": "0"}  # other tests of this machine tune beside this one
OFFLINE = {"HF_HUB_OFFLINE": "1"}
TOLERANCE = 1e-5
State = Mapping[str, Tensor]
Samplers = list[torch.utils.data.DistributedSampler[int]]


def follow(folder: Path, page: str) -> ModuleType:
    """Run a page's commands in a folder, and return its module of model and data."""
    blocks = blocks_of(HOWTO / f"{page}.md")
    for block in blocks:
        if block.duty == "file":
            (folder / block.about).write_text(block.text, encoding="utf-8")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = clean_environment({"PATH": path, **BUDGET, **ALONE, **OFFLINE}, page)
    command = ["bash", "-c", script_of(blocks, ("platform",))]
    finished = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert 0 == finished.returncode, finished.stdout + finished.stderr
    spec = importlib.util.spec_from_file_location(f"{page}_net", folder / "net.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_logs(folder: Path, *names: str) -> None:
    """Check that each way has written a log of one run with samples."""
    for name in names:
        (run,) = read_log(folder / f"{name}.jsonl").runs
        assert run.samples, name


def check_weights(expected: State, found: Mapping[str, State]) -> None:
    """Check that each way ended with the expected weights."""
    assert found
    for name, state in found.items():
        assert expected.keys() == state.keys(), name
        furthest = max((state[key] - expected[key]).abs().max().item() for key in expected)
        assert furthest < TOLERANCE, (name, furthest)


def rows_of(samplers: Samplers, batch_size: int) -> Iterator[list[int]]:
    """Yield the rows of all ranks' batches together, step by step, for ever."""
    epoch = 0
    while True:
        for sampler in samplers:
            sampler.set_epoch(epoch)
        orders = [list(sampler) for sampler in samplers]
        for start in range(0, len(orders[0]), batch_size):
            yield [row for order in orders for row in order[start : start + batch_size]]
        epoch += 1


@pytest.mark.timeout(LIMIT_S + 60)
def test_lightning_ends_with_the_weights_of_one_process(tmp_path: Path) -> None:
    """Its DDP tuned, its DDP and its process groups on the engine, `DistributedOptimizer`; gradients are clipped."""
    module = follow(tmp_path, "lightning")
    dataset = module.examples()
    samplers: Samplers = [torch.utils.data.DistributedSampler(dataset, 2, rank) for rank in range(2)]
    torch.manual_seed(0)
    net = module.Net()
    optimizer = net.configure_optimizers()
    rows = rows_of(samplers, 16)

    for _ in range(200):
        optimizer.zero_grad()
        net.training_step(dataset[next(rows)], 0).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()

    ways = ("ddp", "engine", "optimizer")
    check_logs(tmp_path, *ways)
    check_weights(
        net.state_dict(),
        {way: torch.load(tmp_path / f"{way}.ckpt", weights_only=True)["state_dict"] for way in (*ways, "backend")},
    )


@pytest.mark.timeout(LIMIT_S + 60)
def test_accelerate_ends_with_the_weights_of_one_process(tmp_path: Path) -> None:
    """Its DDP tuned, its DDP and its process groups on the engine, and `DistributedOptimizer` in DDP's place."""
    module = follow(tmp_path, "accelerate")
    dataset, model = module.examples(), module.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for step in range(400):
        inputs, labels = dataset[step % 2 * 32 : step % 2 * 32 + 32]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    ways = ("ddp", "engine", "optimizer")
    check_logs(tmp_path, *ways)
    check_weights(
        model.state_dict(),
        {way: torch.load(tmp_path / f"{way}.pt", weights_only=True) for way in (*ways, "backend")},
    )


@pytest.mark.timeout(LIMIT_S + 60)
def test_the_trainer_ends_with_the_weights_of_one_process(tmp_path: Path) -> None:
    """Its DDP tuned, its DDP and its process groups on the engine; gradients are clipped, as the trainer does."""
    module = follow(tmp_path, "transformers")
    words = torch.stack([example["input_ids"] for example in module.examples()])
    model = module.make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for step in range(60):
        batch = words[step % 4 * 16 : step % 4 * 16 + 16]
        optimizer.zero_grad()
        model(input_ids=batch, labels=batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    ways = ("ddp", "engine")
    check_logs(tmp_path, *ways)
    check_weights(
        model.state_dict(),
        {way: type(model).from_pretrained(tmp_path / way).state_dict() for way in (*ways, "backend")},
    )
