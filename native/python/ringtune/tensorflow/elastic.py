# SPDX-License-Identifier: Apache-2.0
"""Elastic training for TensorFlow with Horovod's names and meanings; `hvd.elastic` of `ringtune.tensorflow as hvd`.

A loss inside a graph is TensorFlow's own error, which has the text of the engine's; `run` knows it by that.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import tensorflow as tf

from ringtune.elastic import HostsUpdatedInterrupt, ObjectState, Resize, State, keep_learning_rate
from ringtune.elastic.handlers import StateHandler
from ringtune.elastic.interrupts import LOSS_IN_TEXT, is_loss
from ringtune.elastic.loop import elastic
from ringtune.elastic.membership import WorldMembership
from ringtune.errors import ConfigError

__all__ = [
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TensorFlowKerasState",
    "TensorFlowState",
    "keep_learning_rate",
    "run",
    "scale_learning_rate",
]

Result = TypeVar("Result")


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Let a training function survive lost ranks and take in new ones; see `ringtune.elastic.run`."""
    return elastic(func, WorldMembership(), is_loss_in_graph)


def is_loss_in_graph(error: BaseException) -> bool:
    """Return whether an error, or TensorFlow's error for one inside a graph, means that the world is lost."""
    return is_loss(error) or (isinstance(error, tf.errors.OpError) and bool(LOSS_IN_TEXT.search(str(error))))


class TensorFlowState(ObjectState):
    """State of variables of TensorFlow, and of plain values by name."""

    def __init__(self, variables: Iterable[Any] = (), session: None = None, **kwargs: Any) -> None:
        """Take and save variables and values.

        Args:
            variables: Variables, the same on all ranks.
            session: Horovod's; TensorFlow 2 has none.
            kwargs: Plain values by name.

        Raises:
            ConfigError: If a session is given, or a value cannot be sent to other ranks.
        """
        if session is not None:
            raise ConfigError("TensorFlowState(session=...) is not possible, for TensorFlow 2 has no sessions")
        super().__init__(variables=list(variables), **kwargs)

    def _handler_of(self, name: str, value: Any) -> StateHandler:
        return VariablesHandler() if name == "variables" else super()._handler_of(name, value)


class TensorFlowKerasState(ObjectState):
    """State of a model of Keras, its optimizer, and plain values by name. Build the model before."""

    def __init__(self, model: Any, optimizer: Any = None, backend: None = None, **kwargs: Any) -> None:
        """Take and save the model, the optimizer and the values.

        Args:
            model: Model of Keras, built.
            optimizer: Its optimizer; by default the one that the model was compiled with.
            backend: Horovod's; without effect.
            kwargs: Plain values by name, such as `batch=0, epoch=0`.

        Raises:
            ConfigError: If the model is not built, or a value cannot be sent to other ranks.
        """
        del backend
        if not model.built:
            raise ConfigError(
                "the state needs a model that is built; give its first layer an input shape, or call it once before"
            )
        chosen = getattr(model, "optimizer", None) if optimizer is None else optimizer
        vars(self)["model"] = model
        super().__init__(model=model, optimizer=chosen, **kwargs)

    def _handler_of(self, name: str, value: Any) -> StateHandler:
        if name == "model":
            return ModelHandler()
        if name == "optimizer" and value is not None:
            return OptimizerHandler(lambda: vars(self)["model"])
        return super()._handler_of(name, value)


class VariablesHandler(StateHandler):
    """Handler of a list of variables."""

    def __init__(self) -> None:
        self._saved: list[Any] = []

    def variables_of(self, value: Any) -> list[Any]:
        """Return the variables of a value."""
        return list(value)

    def save(self, value: Any) -> None:
        """See `StateHandler`."""
        self._saved = [array.copy() for array in self.live(value)]

    def restore(self, value: Any) -> Any:
        """See `StateHandler`."""
        return self.load(value, self._saved)

    def live(self, value: Any) -> Any:
        """See `StateHandler`."""
        return [tf.convert_to_tensor(variable).numpy() for variable in self.variables_of(value)]

    def load(self, value: Any, state: Any) -> Any:
        """See `StateHandler`."""
        variables = self.variables_of(value)
        if len(variables) != len(state):
            raise ConfigError(
                f"the state has {len(state)} variables where it comes from and {len(variables)} here; run one program "
                "on all ranks"
            )
        for variable, array in zip(variables, state, strict=True):
            variable.assign(array)
        return value


class ModelHandler(VariablesHandler):
    """Handler of a model of Keras. States of random generators stay each rank's own."""

    def variables_of(self, value: Any) -> list[Any]:
        """Return the weights."""
        return list(value.weights)


class OptimizerHandler(VariablesHandler):
    """Handler of an optimizer of Keras, which is built for the model's variables if it was not used yet."""

    def __init__(self, model: Callable[[], Any]) -> None:
        """Take the way to the model.

        Args:
            model: Returns the state's model.
        """
        super().__init__()
        self._model = model

    def variables_of(self, value: Any) -> list[Any]:
        """Return the optimizer's variables."""
        if not value.built:
            value.build(self._model().trainable_variables)
        return list(value.variables)


def scale_learning_rate(resize: Resize) -> None:
    """Scale the optimizer's learning rate with the number of ranks, for a batch per rank that stays as it is.

    Args:
        resize: The change of the number of ranks, with a state that has an optimizer of Keras.

    Raises:
        ConfigError: If a schedule sets the learning rate, which cannot be scaled.
    """
    optimizer = resize.state.optimizer
    try:
        optimizer.learning_rate = float(tf.convert_to_tensor(optimizer.learning_rate)) * resize.factor
    except TypeError as error:
        raise ConfigError(
            "scale_learning_rate cannot scale the rate of a schedule; let the schedule ask size(), or use "
            "keep_learning_rate"
        ) from error
