# SPDX-License-Identifier: Apache-2.0
"""Bringing all ranks' variables to those of a root rank, with Horovod's names and meanings."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from ringtune.arrays import Array, broadcast_async
from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import world_of
from ringtune.world.handles import start_all, wait_for_all

from .host import call_host, spec_like


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,  # noqa: FBT002  (Horovod's signature)
) -> None:
    """Overwrite variables with the root's.

    Args:
        variables: Variables of TensorFlow or Keras, such as `model.weights`; the same on all ranks.
        root_rank: Rank of the whole job whose values all ranks get.
        process_set: Ranks that take part.
        inplace: Horovod's; without effect.

    Raises:
        ConfigError: If something is no variable, or there is no such rank.
        MismatchError: If shapes or dtypes differ between ranks.
        EngineError: If the world is lost; inside `tf.function`, TensorFlow's error that has its text.
    """
    del inplace
    targets = list(variables)
    for target in targets:
        if not hasattr(target, "assign"):
            raise WrongTypeError(f"broadcast_variables needs variables, not {type(target).__name__}; use broadcast()")
    names = [f"variable.{position}.{leaf_name(target)}" for position, target in enumerate(targets)]

    def run(inputs: list[Array]) -> Sequence[Array]:
        base = world_of(process_set).handles.name_for("variables", None)
        handles = start_all(
            broadcast_async(array, root_rank, name=f"{base}.{name}", process_set=process_set)
            for name, array in zip(names, inputs, strict=True)
        )
        return wait_for_all(handles)

    own = [tf.convert_to_tensor(target) for target in targets]
    for target, value in zip(targets, call_host(run, own, [spec_like(tensor) for tensor in own]), strict=True):
        target.assign(value)


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Overwrite variables with the root's and return them; `name` is Horovod's. See `broadcast_variables`."""
    del name
    targets = list(variables)
    broadcast_variables(targets, root_rank, process_set)
    return targets


def broadcast_global_variables(root_rank: int) -> NoReturn:
    """Raise `ConfigError`: TensorFlow 2 keeps no list of all variables; the text names the calls to use."""
    raise ConfigError(
        f"broadcast_global_variables({root_rank}) is not possible, for TensorFlow 2 keeps no list of all variables; "
        f"call broadcast_variables(model.weights, {root_rank}) and broadcast_variables(optimizer.variables, "
        f"{root_rank}), or give fit() the BroadcastGlobalVariablesCallback"
    )


def leaf_name(variable: Any) -> str:
    """Return a variable's name inside its layer: `kernel` for `dense_3/kernel:0`.

    Names of layers are counted in each process, so that they differ between ranks that have built other models before.
    """
    name = str(getattr(variable, "name", None) or "variable")
    return name.rpartition("/")[2].partition(":")[0]
