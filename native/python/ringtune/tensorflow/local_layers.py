# SPDX-License-Identifier: Apache-2.0
"""Layers that each rank has for itself, as in model-parallel training: their gradients are not combined."""

from typing import Any

import keras

from ringtune.errors import WrongTypeError


def variables_of(local_layers: Any) -> list[Any]:
    """Return the trainable weights of layers.

    Args:
        local_layers: One layer of Keras, several, or None for none; built already.

    Raises:
        WrongTypeError: If one is no layer.
    """
    layers = [local_layers] if isinstance(local_layers, keras.layers.Layer) else list(local_layers or ())
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise WrongTypeError(f"local_layers has a {type(layer).__name__}; it takes layers of Keras")
    return [variable for layer in layers for variable in layer.trainable_weights]
