# SPDX-License-Identifier: Apache-2.0
"""The options of `ringtune recommend`: what names nothing is refused before anybody is asked."""

from collections.abc import Mapping
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.service_commands import recommend


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "foo"}, "--target foo is not known; known are ringtune, openmpi, mpich, nccl, horovod"),
        ({"hardware": "foo"}, "--hardware foo is no fingerprint; give one as ringtune doctor --fingerprint prints it"),
    ],
)
def test_an_unknown_target_or_hardware_is_refused(options: Mapping[str, Any], said: str) -> None:
    """A misspelt engine or fingerprint is an error, not the default config."""
    with pytest.raises(ConfigError, match=said):
        recommend(model="m", world_size=2, **options)
