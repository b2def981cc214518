# SPDX-License-Identifier: Apache-2.0
"""The engine's own tuner: wires rank 0's engine as a target to the shared tuning job of `ringtune.tuning.job`."""

from .autotune import Autotune

__all__ = ["Autotune"]
