# SPDX-License-Identifier: Apache-2.0
"""Tests of jobs: when gradients are ready, which are registered, and the refusals."""

import json
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner.simulator import Gradient, SimulatedJob, described_job, model_job, read_gradients


def test_gradients_are_ready_in_proportion_to_their_work() -> None:
    """Sizes do not matter when the work of all is known."""
    job = SimulatedJob("j", (Gradient("a", (100,), 3.0), Gradient("b", (900,), 1.0)), 1.0, 1.0)

    assert (0.75, 1.0) == job.ready_shares


def test_gradients_without_work_are_ready_in_proportion_to_their_size() -> None:
    """One unknown work is enough: numbers of different kinds cannot be added."""
    job = SimulatedJob("j", (Gradient("a", (100,), 3.0), Gradient("b", (300,))), 1.0, 1.0)

    assert (0.25, 1.0) == job.ready_shares


def test_gradients_that_cost_nothing_are_ready_one_after_the_other() -> None:
    """Zero work for all leaves equal shares."""
    job = SimulatedJob("j", tuple(Gradient(name, (4,), 0.0) for name in "abcd"), 1.0, 1.0)

    assert (0.25, 0.5, 0.75, 1.0) == job.ready_shares


def test_half_precision_takes_half_the_bytes() -> None:
    """A gradient's size follows from its type."""
    assert 200 == Gradient("a", (10, 10), dtype="float16").bytes
    assert 400 == Gradient("a", (10, 10)).bytes


def test_large_gradients_live_in_registered_memory() -> None:
    """A gradient of 64 KiB or more lives in registered memory, unless the job has none."""
    small, large = Gradient("s", (16 * 1024 - 1,)), Gradient("l", (16 * 1024,))
    job = SimulatedJob("j", (small, large), 1.0, 1.0)
    without = SimulatedJob("j", (small, large), 1.0, 1.0, home_bytes=None)

    assert [False, True] == [job.is_registered(small), job.is_registered(large)]
    assert not without.is_registered(large)


@pytest.mark.parametrize(
    ("gradients", "backward_ms", "threads", "match"),
    [
        ((), 1.0, 1.0, "has no gradients"),
        ((Gradient("a", (1,)),), 0.0, 1.0, "give times"),
        ((Gradient("a", (1,)),), float("nan"), 1.0, "give times"),
        ((Gradient("a", (1,)),), 1.0, -1.0, "cores"),
    ],
)
def test_an_impossible_job_is_refused(
    gradients: tuple[Gradient, ...], backward_ms: float, threads: float, match: str
) -> None:
    """The message names the fault."""
    with pytest.raises(ConfigError, match=match):
        SimulatedJob("j", gradients, 0.0, backward_ms, compute_threads=threads)


def test_the_parts_of_a_model_job_are_its_whole_time() -> None:
    """Forward, backward and optimizer add up; the backward pass takes twice the forward pass."""
    job = model_job("resnet50", 93.0)

    assert 93.0 == pytest.approx(job.compute_ms)
    assert 2 * job.forward_ms == pytest.approx(job.backward_ms)


def test_an_unknown_model_is_refused_with_those_there_are() -> None:
    """The message lists the models."""
    with pytest.raises(ConfigError, match="no model 'vgg'; there are bert_base, manysmall, mobilenet_v2, resnet50"):
        model_job("vgg", 10.0)


def test_a_described_model_needs_no_time() -> None:
    """6 operations per multiplication, 32 images of 4.1 billion, 10^13 a second: about 79 ms."""
    assert 79.0 == pytest.approx(described_job("resnet50", None).compute_ms, rel=0.02)


def test_a_workload_file_is_a_job_of_its_own(tmp_path: Path) -> None:
    """Its name is the file's, its gradients those listed; without a time it is refused."""
    path = tmp_path / "mine.json"
    path.write_text('{"dtype": "float16", "tensors": [{"name": "w", "shape": [3, 4]}, {"name": "b", "shape": [4]}]}')

    job = described_job(str(path), 12.0)

    assert ("mine", 32) == (job.name, job.bytes)
    assert 12.0 == pytest.approx(job.compute_ms)
    with pytest.raises(ConfigError, match="how long a step computes"):
        described_job(str(path), None)


def test_a_workload_file_reads_in_its_order(tmp_path: Path) -> None:
    """Names, shapes and types; the work is not known."""
    path = tmp_path / "two.json"
    tensors = [{"name": "b", "shape": [8]}, {"name": "a", "shape": [4, 8]}]
    path.write_text(json.dumps({"name": "two", "dtype": "bfloat16", "tensors": tensors}))

    read = read_gradients(path)

    assert [("b", (8,), 16), ("a", (4, 8), 64)] == [(g.name, g.shape, g.bytes) for g in read]
    assert [None, None] == [gradient.work for gradient in read]


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"tensors": []}',
        '{"dtype": "float32", "tensors": [{"name": "w"}]}',
        '{"dtype": "float32", "tensors": [{"name": "w", "shape": [0]}]}',
        '{"dtype": "float32", "tensors": [{"name": "w", "shape": [true]}]}',
        '{"dtype": "complex64", "tensors": [{"name": "w", "shape": [1]}]}',
    ],
)
def test_a_file_that_is_no_workload_is_refused(tmp_path: Path, text: str) -> None:
    """The message names the file."""
    path = tmp_path / "bad.json"
    path.write_text(text)

    with pytest.raises(ConfigError, match="bad.json"):
        read_gradients(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(ConfigError, match="none.json cannot be read"):
        read_gradients(tmp_path / "none.json")
