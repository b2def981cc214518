# SPDX-License-Identifier: Apache-2.0
"""Elastic training for Keras with Horovod's names and meanings; `hvd.elastic` of `import ringtune.keras as hvd`.

```python
state = hvd.elastic.KerasState(model, batch=0, epoch=0)
callbacks = [
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.UpdateEpochStateCallback(state),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
]

@hvd.elastic.run
def train(state):
    state.model.fit(data, epochs=epochs - state.epoch, callbacks=callbacks)
```
"""

from typing import Any

import keras

from ringtune.tensorflow.elastic import (
    HostsUpdatedInterrupt,
    TensorFlowKerasState,
    keep_learning_rate,
    run,
    scale_learning_rate,
)

__all__ = [
    "CommitStateCallback",
    "HostsUpdatedInterrupt",
    "KerasState",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "keep_learning_rate",
    "run",
    "scale_learning_rate",
]

Logs = dict[str, Any] | None


class KerasState(TensorFlowKerasState):
    """State of a model, its optimizer, and plain values by name; see `TensorFlowKerasState`."""


class CommitStateCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Commits a state after some batches, and after each epoch. Put it last, behind those that change the state."""

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        """Take the state.

        Args:
            state: State to commit.
            batches_per_commit: Batches from commit to commit.
        """
        super().__init__()
        self._state = state
        self._batches_per_commit = batches_per_commit
        self._remaining = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        """Begin to count."""
        del logs
        self._remaining = self._batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Commit if it is due."""
        del batch, logs
        self._remaining -= 1
        if self._remaining == 0:
            self._remaining = self._batches_per_commit
            self._state.commit()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Commit."""
        del epoch, logs
        self._state.commit()


class UpdateBatchStateCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Keeps `state.batch`, the number of the next batch in the epoch, through several calls of `fit`.

    A callback cannot shorten an epoch of Keras 3: `fit` an epoch that was begun before with data that leave out the
    first `state.batch` batches.
    """

    def __init__(self, state: Any) -> None:
        """Take the state.

        Args:
            state: State with a value `batch`.
        """
        super().__init__()
        self._state = state
        self._first = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Count on from where the epoch was left."""
        del epoch, logs
        self._first = self._state.batch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Note the number of the next batch."""
        del logs
        self._state.batch = self._first + batch + 1

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Begin anew."""
        del epoch, logs
        self._state.batch = 0


class UpdateEpochStateCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Keeps `state.epoch`, the number of the next epoch, through several calls of `fit`.

    Both ways to go on are right: `fit(epochs=epochs - state.epoch)`, whose epochs count from 0, and
    `fit(initial_epoch=state.epoch, epochs=epochs)`, which schedules by epoch and logs need.
    """

    def __init__(self, state: Any) -> None:
        """Take the state.

        Args:
            state: State with a value `epoch`.
        """
        super().__init__()
        self._state = state
        self._before: int | None = None  # epochs that were done before those that `fit` counts; None until it says

    def on_train_begin(self, logs: Logs = None) -> None:
        """Wait for the number that `fit` counts from."""
        del logs
        self._before = None

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Note the epochs that `fit` does not count: with an `initial_epoch` it counts them all."""
        del logs
        if self._before is None:
            self._before = 0 if epoch else self._state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Note the number of the next epoch."""
        del logs
        self._state.epoch = (self._before or 0) + epoch + 1
