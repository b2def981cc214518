# SPDX-License-Identifier: Apache-2.0
"""The tuner in TensorBoard, beside the training's scalars."""

import importlib
from typing import Any

from ringtune.errors import ConfigError
from ringtune.tuner import Progress, Result
from ringtune.tuning.job.callbacks import Callback, Moment

from .figures import config_texts, progress_numbers, result_numbers


class TensorBoardCallback(Callback):
    """Writes scalars `ringtune/...` over the job's steps, and each verdict as a text."""

    def __init__(self, log_dir: str | None = None, *, writer: Any = None) -> None:
        """Prepare; event files are opened on rank 0 alone, with the first thing to write.

        Args:
            log_dir: Folder for a `SummaryWriter` of its own; None for TensorBoard's default, `runs/...`.
            writer: The training's `SummaryWriter`, to be used instead; it is flushed at the end and stays open.

        Raises:
            ConfigError: If both are given, or `torch.utils.tensorboard` cannot be imported.
        """
        if log_dir is not None and writer is not None:
            raise ConfigError("TensorBoardCallback() got log_dir and writer; a writer has a folder of its own")
        self._log_dir = log_dir
        self._writer = writer
        self._is_own = writer is None
        self._writer_class = _find_writer_class() if writer is None else None

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Write the newest window's figures and its config."""
        self._write(progress_numbers(progress, moment), moment.step)

    def finished(self, result: Result, moment: Moment) -> None:
        """Write the decision."""
        self._write(result_numbers(result), moment.step)
        settings = "\n".join(f"- {name}: {text}" for name, text in config_texts(result.config).items())
        self._open().add_text("ringtune/verdict", f"{result.verdict}\n\n{settings}", moment.step)
        self._open().flush()

    def warned(self, text: str, moment: Moment) -> None:
        """Write a warning."""
        self._open().add_text("ringtune/warning", text, moment.step)

    def close(self) -> None:
        """Close a writer of its own, flush the training's."""
        if self._writer is None:
            return
        if not self._is_own:
            self._writer.flush()
            return
        self._writer.close()
        self._writer = None

    def _write(self, numbers: dict[str, float], step: int) -> None:
        for name, number in numbers.items():
            self._open().add_scalar(f"ringtune/{name}", number, step)

    def _open(self) -> Any:
        if self._writer is None:
            assert self._writer_class is not None
            self._writer = self._writer_class(self._log_dir)
        return self._writer


def _find_writer_class() -> Any:
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError as error:
        raise ConfigError(
            f"TensorBoardCallback() cannot import torch.utils.tensorboard ({error}); install it: "
            "pip install tensorboard"
        ) from error
