# SPDX-License-Identifier: Apache-2.0
"""Ray Train: `RingtuneConfig`, and an unchanged `TorchTrainer` with torch's process group."""

import json
from pathlib import Path
from typing import Any

import pytest
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from ringtune.ray import RingtuneConfig
from tests.platforms.ray_cluster import training_loops

pytestmark = pytest.mark.usefixtures("cluster")


def fit(folder: Path, kind: Any, workers: Any, *, fails: bool = False, failures: int = 0, **backend: Any) -> Any:
    """Train with one of Ray's trainers and return every rank's facts."""
    trainer = kind(
        training_loops.place,
        train_loop_config={"folder": str(folder), "fails": fails},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(storage_path=str(folder), failure_config=FailureConfig(max_failures=failures)),
        **backend,
    )
    trainer.fit()
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("[0-9].json"))]


def assert_places(facts: list[dict[str, Any]], size: int, *, has_process_group: bool) -> None:
    """Require that ranks are Ray's, that all met, and whether torch has a process group."""
    assert list(range(size)) == [fact["rank"] for fact in facts]
    assert [(float(size), has_process_group)] * size == [(fact["sum"], fact["has_process_group"]) for fact in facts]
    assert [fact["ray"] for fact in facts] == [fact["ours"] for fact in facts]


def test_torch_trainer_takes_the_config_and_restarts_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 raises while rank 0 waits for it; Ray starts a new group, of as many ranks as it finds room for."""
    monkeypatch.setenv("AUTOTUNE_MODEL", "resnet")

    facts = fit(tmp_path, TorchTrainer, (1, 2), fails=True, failures=1, torch_config=RingtuneConfig())

    assert (tmp_path / training_loops.FIRST).exists()
    assert_places(facts, 2, has_process_group=False)
    assert {"resnet"} == {fact["model"] for fact in facts}
    assert 1 == len({fact["meeting"] for fact in facts})


@pytest.mark.long
def test_an_unchanged_torch_trainer_works_by_its_process_group(tmp_path: Path) -> None:
    """`hvd.init()` asks torch's store; the program does not name ringtune."""
    facts = fit(tmp_path, TorchTrainer, 2, torch_config=TorchConfig(backend="gloo"))

    assert_places(facts, 2, has_process_group=True)


@pytest.mark.long
def test_a_data_parallel_trainer_shows_the_users_own_exception(tmp_path: Path) -> None:
    """Without a second attempt the training fails, by the exception of the rank that raised."""
    with pytest.raises(Exception, match="mine, on rank 1"):
        fit(tmp_path, DataParallelTrainer, 2, fails=True, backend_config=RingtuneConfig())
