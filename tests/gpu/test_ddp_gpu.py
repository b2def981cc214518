# SPDX-License-Identifier: Apache-2.0
"""`ringtune.ddp.autotune` on a GPU: verdict, unchanged bits, windows in device time, with NCCL and with Gloo."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch

from ringtune.tuner import read_log
from tests.gpu.torch_ranks import DUPLICATE, figures_of, run_ranks

STEPS = 700
LOG = "tune.jsonl"
Figures = dict[str, Any]

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here; make test-gpu brings it to one")


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """Return the findings of one rank on NCCL in all scenarios of `programs/ddp_switches.py`."""
    (text,) = run_ranks("ddp_switches", ["cuda", "nccl"], tmp_path_factory.mktemp("switched"), ranks=1)
    return figures_of(text)


@pytest.fixture(scope="module", params=["gloo", "nccl"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Figures]]:
    """Return the folder of two jobs of two ranks, tuned and not, and their ranks' figures."""
    folder = tmp_path_factory.mktemp(request.param)
    log = str(folder / LOG)
    try:
        texts = [
            text
            for number, where in enumerate((log, "-"))
            for text in run_ranks("ddp_tuned", ["cuda", request.param, str(STEPS), where], folder / str(number))
        ]
    except AssertionError as error:
        if DUPLICATE in str(error):
            pytest.skip(f"this NCCL has no two ranks on one GPU: {DUPLICATE}")
        raise
    return folder, [figures_of(text) for text in texts]


def test_other_buckets_change_no_bit(switched: Figures) -> None:
    """On NCCL, on the default stream and on another, with views, a static graph and unused parameters."""
    assert [] == switched["bits"]["differing"]


def test_windows_are_in_device_time(switched: Figures, record_property: Callable[[str, object], None]) -> None:
    """The host, which launches several steps at once, measures other times than the windows are made of."""
    seen = switched["windows"]

    record_property("windows", seen)
    assert seen["window_ms"] == pytest.approx(seen["device_ms"], rel=0.1)
    assert seen["host_ms"] < 0.7 * seen["device_ms"], "the host did not run ahead; the comparison shows nothing"
    assert seen["ends"] > 0


def test_what_a_step_costs_the_host_is_recorded(
    switched: Figures, record_property: Callable[[str, object], None]
) -> None:
    """Every end of a step was read but those that the device had not passed yet."""
    record_property("cost", switched["cost"])
    print(f"\ncost of a step on the host: {switched['cost']}")  # noqa: T201  (a figure for people)
    assert switched["cost"]["known"] > 0


def test_a_captured_step_ends_tuning_with_a_sentence(switched: Figures) -> None:
    """The graph keeps the buckets that it was captured with."""
    captured = switched["captured"]

    assert [False, True, False] == captured["is_captured"]
    assert captured["is_over"]
    assert ["CUDA graph" in warning for warning in captured["warnings"]] == [True]


def test_one_rank_alone_has_nothing_to_tune(switched: Figures) -> None:
    """A single rank ends with a verdict, on NCCL too."""
    assert "nothing to tune" in switched["alone"]["verdict"]


def test_two_ranks_come_to_a_verdict(trained: tuple[Path, list[Figures]]) -> None:
    """On all ranks after the same step; the log has it."""
    folder, (first, second, *_) = trained
    (run,) = read_log(folder / LOG).runs

    assert (True, True) == (first["is_finished"], second["is_finished"])
    assert run.result is not None
    assert first["verdict"].startswith("adopted" if run.result.adopted else "keeping default")
    print(f"\n{first['verdict']}")  # noqa: T201  (a figure for people)


def test_tuning_changes_no_bit(trained: tuple[Path, list[Figures]]) -> None:
    """Both ranks of both jobs have the same weights."""
    _, figures = trained

    assert [figures[0]["digest"]] * 4 == [found["digest"] for found in figures]


def test_samples_are_in_device_time(trained: tuple[Path, list[Figures]]) -> None:
    """The samples' step times are among those that the program has seen on the device."""
    folder, (first, *_) = trained
    (run,) = read_log(folder / LOG).runs
    seen = first["device_ms"]

    middle = median(sample.step_ms["median"] for sample in run.samples if sample.valid)
    assert seen[len(seen) // 20] * 0.9 <= middle <= seen[-len(seen) // 20] * 1.1


def test_the_study_is_one_of_this_gpu(trained: tuple[Path, list[Figures]]) -> None:
    """The machine's facts name the GPU and the backend that carried the data."""
    folder, (first, *_) = trained
    (run,) = read_log(folder / LOG).runs

    assert run.run is not None
    (machine,) = run.run.machines or []
    assert first["gpu"] in machine["gpus"]
    assert folder.name.rstrip("0123456789") == machine["link_kind"]
