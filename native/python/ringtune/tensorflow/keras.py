# SPDX-License-Identifier: Apache-2.0
"""`ringtune.keras` under the name that `horovod.tensorflow.keras` suggests."""

from ringtune.keras import *  # noqa: F403  (the same module by another name)
from ringtune.keras import __all__  # noqa: F401
