# SPDX-License-Identifier: Apache-2.0
"""The tuner in an MLflow run, beside the training's metrics."""

import importlib
import time
from typing import Any

from ringtune.errors import ConfigError
from ringtune.tuner import Progress, Result
from ringtune.tuning.job.callbacks import Callback, Moment

from .figures import config_texts, progress_numbers, result_numbers

MAX_TAG_CHARACTERS = 5000  # MLflow refuses longer values


class MlflowCallback(Callback):
    """Logs metrics over the job's steps, the decision as tags, and the first decision's config as parameters.

    - Of each window the metrics `ringtune/score_bytes_per_s`, `ringtune/step_ms` (the median), `ringtune/phase` and the
      numeric knobs, `ringtune/config/<knob>`.
    - Of each decision the metrics `ringtune/adopted`, `ringtune/tuning_cost_s`, `ringtune/speedup` where a config was
      adopted, and the adoption test's interval: `ringtune/speedup_ci_low`, `_ci_high` and its level `_ci_level`.
    - The newest as tags: `ringtune.phase`, `ringtune.verdict`, `ringtune.config.<knob>`, `ringtune.warning`.
    - The config of the run's first decision as parameters `ringtune.<knob>`, for parameters cannot change.

    It speaks through `MlflowClient`, for MLflow's active run belongs to the thread that started it.
    """

    def __init__(
        self, run_id: str | None = None, *, tracking_uri: str | None = None, experiment: str = "ringtune"
    ) -> None:
        """Prepare. The first news of rank 0's tuner is the first that MLflow gets.

        Args:
            run_id: The run to log to; None for the run that is active here and now, or else for a run of its own.
            tracking_uri: MLflow's store, such as `sqlite:///mlflow.db`; None for the one that MLflow is set to.
            experiment: Experiment of a run of its own; made where it is missing.

        Raises:
            ConfigError: If `mlflow` cannot be imported.
        """
        self._mlflow = _import_mlflow()
        active = self._mlflow.active_run() if run_id is None else None
        self._given_run_id: str | None = run_id if active is None else active.info.run_id
        self._tracking_uri: str = tracking_uri or self._mlflow.get_tracking_uri()
        self._experiment = experiment
        self._client: Any = None
        self._run_id: str | None = None

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Log the newest window's figures and its config."""
        self._log(progress_numbers(progress, moment), moment.step, {"ringtune.phase": progress.phase.value})

    def finished(self, result: Result, moment: Moment) -> None:
        """Log the decision."""
        texts = config_texts(result.config)
        tags = {f"ringtune.config.{name}": text for name, text in texts.items()}
        client, run_id = self._open()
        known = client.get_run(run_id).data.params
        parameters = {f"ringtune.{name}": text for name, text in texts.items() if f"ringtune.{name}" not in known}
        self._log(result_numbers(result), moment.step, {**tags, "ringtune.verdict": result.verdict}, parameters)

    def warned(self, text: str, moment: Moment) -> None:
        """Leave the newest warning as a tag."""
        self._log({}, moment.step, {"ringtune.warning": text})

    def close(self) -> None:
        """End a run of its own; the training's run is the training's to end."""
        if self._run_id is not None and self._given_run_id is None:
            self._client.set_terminated(self._run_id)
        self._client = self._run_id = None

    def _log(
        self, numbers: dict[str, float], step: int, tags: dict[str, str], parameters: dict[str, str] | None = None
    ) -> None:
        """Send everything with one call."""
        entities = self._mlflow.entities
        now_ms = int(time.time() * 1e3)
        client, run_id = self._open()
        client.log_batch(
            run_id,
            [entities.Metric(f"ringtune/{name}", number, now_ms, step) for name, number in numbers.items()],
            [entities.Param(name, text) for name, text in (parameters or {}).items()],
            [entities.RunTag(name, text[:MAX_TAG_CHARACTERS]) for name, text in tags.items()],
        )

    def _open(self) -> tuple[Any, str]:
        if self._client is None or self._run_id is None:
            self._client = self._mlflow.MlflowClient(tracking_uri=self._tracking_uri)
            self._run_id = self._given_run_id or self._begin_run()
        return self._client, self._run_id

    def _begin_run(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment_id = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        return str(self._client.create_run(experiment_id, run_name="ringtune").info.run_id)


def _import_mlflow() -> Any:
    try:
        return importlib.import_module("mlflow")
    except ImportError as error:
        raise ConfigError(
            f"MlflowCallback() cannot import mlflow ({error}); install it: pip install mlflow-skinny, with sqlalchemy "
            "and alembic for a store in a database"
        ) from error
