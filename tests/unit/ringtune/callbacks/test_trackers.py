# SPDX-License-Identifier: Apache-2.0
"""Records in MLflow and TensorBoard, read back through their own interfaces."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

import ringtune.callbacks
from ringtune.callbacks import Callback, MlflowCallback, Moment, TensorBoardCallback
from ringtune.errors import ConfigError
from ringtune.session.session import SESSION
from ringtune.tuning.job.callbacks import CallbackObserver, RegisteredCallbacks
from tests.unit.ringtune.tuning.job.news import CHOSEN, PROGRESS, RESULT

FIGURES = {
    "score_bytes_per_s": 123.4e6,
    "step_ms": 21.5,
    "phase": 2.0,
    "config/fusion_bytes": 1048576.0,
    "config/cycle_ms": 20.0,
}
INTERVAL = {"speedup_ci_low": 0.098, "speedup_ci_high": 0.149, "speedup_ci_level": 0.9}
DECISION = {"adopted": 1.0, "speedup": 0.123, **INTERVAL, "tuning_cost_s": 1.5}


def tell(callback: Callback) -> None:
    """Tell of a sample at step 40, of a decision at step 50, and of the end."""
    callback.progress(PROGRESS, Moment(40, 21.5))
    callback.finished(RESULT, Moment(50, 20.0))
    callback.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Have MLflow keep its runs in a SQLite file, whose URI is returned; making its tables takes seconds."""
    before = mlflow.get_tracking_uri()
    uri = f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"
    mlflow.set_tracking_uri(uri)
    yield uri
    mlflow.set_tracking_uri(before)


def test_mlflow_gets_metrics_over_steps_and_the_decision_in_a_run_of_its_own(store: str) -> None:
    """A run is made and ended if none is active."""
    tell(MlflowCallback(tracking_uri=store, experiment="own"))

    client = mlflow.MlflowClient(store)
    (own,) = client.search_experiments(filter_string="name = 'own'")
    (found,) = client.search_runs([own.experiment_id])
    assert "FINISHED" == found.info.status
    assert DECISION == {name: found.data.metrics[f"ringtune/{name}"] for name in DECISION}
    for name, number in FIGURES.items():
        first = client.get_metric_history(found.info.run_id, f"ringtune/{name}")[0]
        assert (number, 40) == (first.value, first.step), name
    assert {"ringtune.fusion_bytes": "1 MiB", "ringtune.cycle_ms": "20 ms"} == found.data.params
    assert "search" == found.data.tags["ringtune.phase"]
    assert RESULT.verdict == found.data.tags["ringtune.verdict"]
    assert "1 MiB" == found.data.tags["ringtune.config.fusion_bytes"]


def test_mlflow_gets_it_in_the_run_that_is_active(store: str) -> None:
    """The training's run is found on the training's thread, goes on, and keeps its first decision's parameters."""
    with mlflow.start_run() as active:
        callback = MlflowCallback(tracking_uri=store)
        tell(callback)
        tell(callback)
        callback.finished(replace(RESULT, config=RESULT.baseline), Moment(60))
        callback.close()
        status = mlflow.get_run(active.info.run_id).info.status

    found = mlflow.get_run(active.info.run_id).data
    assert "RUNNING" == status
    assert "1 MiB" == found.params["ringtune.fusion_bytes"]
    assert "0 (off)" == found.tags["ringtune.config.fusion_bytes"]


def test_a_run_of_its_own_is_ended_when_the_callback_fails(store: str) -> None:
    """MLflow would call it running for ever; here a verdict that is no text cannot be sent."""
    registered, warnings = RegisteredCallbacks(), list[str]()
    registered.add(MlflowCallback(tracking_uri=store, experiment="failing"))
    observer = CallbackObserver(registered, lambda: Moment(1), warnings.append)

    observer.progress(PROGRESS)
    observer.finished(replace(RESULT, verdict=None))  # type: ignore[arg-type]
    observer.close()

    client = mlflow.MlflowClient(store)
    failing = client.get_experiment_by_name("failing")
    assert failing is not None
    assert 1 == len(warnings)
    assert ["FINISHED"] == [run.info.status for run in client.search_runs([failing.experiment_id])]


def test_a_run_that_could_not_begin_is_not_ended(store: str) -> None:
    """Closing the callback then logs no second message."""
    callback = MlflowCallback(tracking_uri=store, experiment="")

    with pytest.raises(mlflow.exceptions.MlflowException):
        callback.progress(PROGRESS, Moment(1))

    callback.close()


def test_a_number_that_is_none_and_a_text_are_left_out(store: str) -> None:
    """MLflow's metrics are finite numbers; `auto` is none."""
    unknown = replace(PROGRESS, score_bytes_per_s=float("nan"), config=type(CHOSEN)({"chunk_bytes": "auto"}))
    with mlflow.start_run() as active:
        callback = MlflowCallback(tracking_uri=store)
        callback.progress(unknown, Moment(1))
        callback.warned("x" * 10_000, Moment(2))
        callback.close()

    found = mlflow.get_run(active.info.run_id).data
    assert {"ringtune/phase": 2.0} == found.metrics
    assert "x" * 5000 == found.tags["ringtune.warning"]


def test_a_callback_that_hears_nothing_leaves_nothing(store: str, tmp_path: Path) -> None:
    """A callback without events, as on every rank but one, makes no run and no folder."""
    before = len(mlflow.search_experiments())

    MlflowCallback(tracking_uri=store, experiment="silent").close()
    TensorBoardCallback(str(tmp_path / "silent")).close()

    assert before == len(mlflow.search_experiments())
    assert [] == list(tmp_path.iterdir())


def test_tensorboard_gets_scalars_over_steps_and_the_verdict(tmp_path: Path) -> None:
    """Read back with TensorBoard's own reader."""
    tell(TensorBoardCallback(str(tmp_path)))

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    read = {name: events.Scalars(f"ringtune/{name}")[0] for name in (*FIGURES, *DECISION)}
    assert dict.fromkeys(FIGURES, 40) | dict.fromkeys(DECISION, 50) == {n: e.step for n, e in read.items()}
    assert pytest.approx(FIGURES | DECISION) == {name: event.value for name, event in read.items()}
    (text,) = events.Tensors("ringtune/verdict/text_summary")
    assert RESULT.verdict.encode() in text.tensor_proto.string_val[0]
    assert b"fusion_bytes: 1 MiB" in text.tensor_proto.string_val[0]


def test_the_trainings_writer_stays_open(tmp_path: Path) -> None:
    """The training's writer writes into the same file after the tuner's end."""
    writer = SummaryWriter(str(tmp_path))

    tell(TensorBoardCallback(writer=writer))
    writer.add_scalar("loss", 0.5, 60)
    writer.close()

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert {"loss", "ringtune/step_ms"} <= set(events.Tags()["scalars"])
    assert 1 == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("module", "make"), [("mlflow", MlflowCallback), ("torch.utils.tensorboard", TensorBoardCallback)]
)
def test_a_missing_tracker_is_a_clear_error(module: str, make: type[Callback], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the package to install, when the callback is made and not before."""
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConfigError, match="pip install (mlflow-skinny|tensorboard)"):
        make()


def test_two_places_for_tensorboard_are_an_error() -> None:
    """A writer has its folder."""
    with pytest.raises(ConfigError, match="log_dir and writer"):
        TensorBoardCallback("runs", writer=object())


def test_callbacks_are_registered_with_the_session() -> None:
    """Before or after `init()`; an object that is no callback is refused at once."""
    callback = Callback()

    ringtune.callbacks.add(callback)
    added = SESSION.callbacks.listed()
    ringtune.callbacks.remove(callback)

    assert (callback,) == added
    assert () == SESSION.callbacks.listed()
    with pytest.raises(ConfigError, match="got a function"):
        ringtune.callbacks.add(print_nothing)  # type: ignore[arg-type]


def print_nothing() -> None:
    """Stand for a function that somebody takes for a callback."""
