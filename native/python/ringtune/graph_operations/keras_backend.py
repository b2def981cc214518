# SPDX-License-Identifier: Apache-2.0
"""Refuses a Keras that does not run on TensorFlow, before TensorFlow, which may not be there, is imported."""

import keras

from ringtune.errors import ConfigError


def check_keras_backend() -> None:
    """Check that Keras runs on TensorFlow.

    Raises:
        ConfigError: If it does not; the message names the remedy.
    """
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise ConfigError(
            f"Keras runs on {backend} here, and ringtune.keras needs TensorFlow; set KERAS_BACKEND=tensorflow, or "
            "train a PyTorch model with ringtune.torch"
        )
