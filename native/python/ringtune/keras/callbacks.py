# SPDX-License-Identifier: Apache-2.0
"""Callbacks for `model.fit`, with Horovod's names and meanings: equal starts, joint metrics, warm-up."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from ringtune import arrays
from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Min, world_of
from ringtune.tensorflow import broadcast_variables
from ringtune.tensorflow.groups import variable_key

Logs = dict[str, Any] | None
Multiplier = Callable[[float], float]


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Gives every rank the root's weights and optimizer state at the start of training.

    That is before the first batch where all ranks' models are built by then, and else after it. States of random
    generators stay each rank's own.
    """

    def __init__(
        self,
        root_rank: int,
        device: str = "",
        process_set: ProcessSet = global_process_set,
        local_variables: Sequence[Any] = (),
    ) -> None:
        """Name the root.

        Args:
            root_rank: Rank whose values all ranks get.
            device: Horovod's; without effect.
            process_set: Ranks that take part.
            local_variables: Weights that each rank has for itself, as those of `local_layers`; they are left alone.
        """
        super().__init__()
        del device
        self._local = {variable_key(variable) for variable in local_variables}
        self._root_rank = root_rank
        self._process_set = process_set
        self._is_done = False

    def on_train_begin(self, logs: Logs = None) -> None:
        """Broadcast if every rank can."""
        del logs
        is_built = all(layer.built for layer in self.model._flatten_layers())  # noqa: SLF001  (as Keras itself asks)
        if arrays.allreduce(np.int32(is_built), op=Min, process_set=self._process_set):
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Broadcast if that was not done before."""
        del batch, logs
        if not self._is_done:
            self._broadcast()

    def _broadcast(self) -> None:
        self._is_done = True
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        weights = [weight for weight in self.model.weights if variable_key(weight) not in self._local]
        broadcast_variables([*weights, *optimizer.variables], self._root_rank, self._process_set)


class MetricAverageCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Averages an epoch's metrics over the ranks that have them; callbacks that come later in the list see averages."""

    def __init__(self, device: str = "", process_set: ProcessSet = global_process_set) -> None:
        """Begin.

        Args:
            device: Horovod's; without effect.
            process_set: Ranks that take part.
        """
        super().__init__()
        del device
        self._process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Replace the metrics in `logs`."""
        del epoch
        own = {} if logs is None else logs
        gathered = arrays.allgather_object(
            {name: float(value) for name, value in own.items()}, process_set=self._process_set
        )
        for name in own:
            own[name] = float(np.mean([metrics[name] for metrics in gathered if name in metrics]))


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):  # type: ignore[misc]  # Keras has no types
    """Saves the best model seen so far, on rank 0 alone; put it after `MetricAverageCallback`.

    Horovod's estimators set `filepath` themselves; here it is an argument, and it may be set before training, too.
    """

    def __init__(  # noqa: PLR0917  (Horovod's signature)
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,  # noqa: FBT002  (Horovod's signature)
        mode: str = "auto",
        save_freq: str | int = "epoch",
        filepath: str | None = None,
    ) -> None:
        """Choose metric, file and direction of the best epoch.

        Args:
            monitor: The metric.
            verbose: 1 for a line at each save.
            save_weights_only: Whether the weights alone are saved.
            mode: `min`, `max`, or `auto`, by the metric's name.
            save_freq: `epoch`, or a number of batches.
            filepath: File to write; by default `best_model.keras` or `best_model.weights.h5` in the working directory.
        """
        place = filepath or ("best_model.weights.h5" if save_weights_only else "best_model.keras")
        super().__init__(
            place,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )

    def _save_model(self, *arguments: Any, **options: Any) -> None:
        """Save on rank 0; called by Keras."""
        if world_of(global_process_set).rank == 0:
            super()._save_model(*arguments, **options)


class LearningRateScheduleCallback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Sets the learning rate to a multiple of the initial one, by epoch or by batch."""

    def __init__(  # noqa: PLR0917  (Horovod's signature)
        self,
        initial_lr: float,
        multiplier: float | Multiplier,
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,  # noqa: FBT002  (Horovod's signature)
        momentum_correction: bool = True,  # noqa: FBT002  (Horovod's signature)
        steps_per_epoch: int | None = None,
    ) -> None:
        """Describe the schedule.

        Args:
            initial_lr: Learning rate that is multiplied.
            multiplier: Function of the epoch that gives the factor; a number is raised to the epoch's power.
            start_epoch: First epoch in which the rate is set.
            end_epoch: First epoch in which it is no longer.
            staircase: Whether the rate is set once an epoch, and not at each batch for the fraction of an epoch.
            momentum_correction: Whether the momentum that was gathered is scaled with the rate: Goyal et al. (2017),
                "Accurate, large minibatch SGD", section 2.1.
            steps_per_epoch: Batches of an epoch; found out where Keras knows it.
        """
        super().__init__()
        self._initial_lr = initial_lr
        self._multiplier = multiplier if callable(multiplier) else _powers_of(multiplier)
        self._epochs = (start_epoch, end_epoch)
        self._is_staircase = staircase
        self._is_momentum_corrected = momentum_correction
        self._steps_per_epoch = steps_per_epoch
        self._epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """Find out how many batches an epoch has, where that is needed."""
        del logs
        if not self._is_staircase and self._steps_per_epoch is None:
            self._steps_per_epoch = self.params.get("steps")
            if not self._steps_per_epoch:
                raise ConfigError(
                    f"{type(self).__name__} cannot find out the batches of an epoch; give steps_per_epoch"
                )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Take note of the epoch."""
        del logs
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Set the learning rate."""
        del logs
        start, end = self._epochs
        if self._epoch < start or (end is not None and self._epoch >= end) or (self._is_staircase and batch > 0):
            return
        fraction = 0.0 if self._is_staircase else batch / (self._steps_per_epoch or 1)
        self._set_rate(self._initial_lr * self._multiplier(self._epoch + fraction))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Log the learning rate, as Horovod does, under `lr`."""
        del epoch
        if logs is not None:
            logs["lr"] = self.learning_rate

    @property
    def learning_rate(self) -> float:
        """Learning rate that the optimizer uses now."""
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))

    def _set_rate(self, rate: float) -> None:
        optimizer = self.model.optimizer
        before = self.learning_rate
        optimizer.learning_rate = rate
        if self._is_momentum_corrected and before > 0 and rate != before:
            for momentum in getattr(optimizer, "momentums", None) or ():  # of SGD, which has the rate inside
                if momentum is not None:
                    momentum.assign(momentum * (rate / before))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Raises the learning rate batch by batch from `initial_lr / size` to `initial_lr`."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,  # noqa: FBT002  (Horovod's signature)
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        """Describe the warm-up.

        Args:
            initial_lr: Learning rate that is reached, that of the whole job.
            warmup_epochs: Number of epochs in which it is reached.
            momentum_correction: See `LearningRateScheduleCallback`.
            steps_per_epoch: See `LearningRateScheduleCallback`.
            verbose: Whether rank 0 prints its end.
        """
        super().__init__(
            initial_lr,
            self._share,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self._warmup_epochs = warmup_epochs
        self._is_verbose = verbose > 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Print the end of the warm-up."""
        super().on_epoch_end(epoch, logs)
        world = world_of(global_process_set)
        if self._is_verbose and epoch == self._warmup_epochs - 1 and world.rank == 0:
            sys.stdout.write(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {self.learning_rate:g}.\n")

    def _share(self, epoch: float) -> float:
        """Return the share of the rate at a batch's end, so that an epoch ends with a round one."""
        size = world_of(global_process_set).size
        at_end = epoch + 1 / (self._steps_per_epoch or 1)
        return (at_end * (size - 1) / self._warmup_epochs + 1) / size


def _powers_of(base: float) -> Multiplier:
    return lambda epoch: base**epoch
