# SPDX-License-Identifier: Apache-2.0
"""Elastic training: a job goes on when ranks are lost or come, with Horovod's names and meanings.

`ringtune.torch.elastic` has the states for PyTorch. This package knows no framework: it has the loop around the
training function, the state of plain values, and the agreement of the ranks on updates.
"""

from .interrupts import HostsUpdatedInterrupt
from .loop import run
from .resize import Resize, ResizePolicy, keep_learning_rate
from .states import ObjectState, State

__all__ = [
    "HostsUpdatedInterrupt",
    "ObjectState",
    "Resize",
    "ResizePolicy",
    "State",
    "keep_learning_rate",
    "run",
]
