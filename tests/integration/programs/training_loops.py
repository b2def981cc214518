# SPDX-License-Identifier: Apache-2.0
"""Runs the training loops of one family, all or those named. Arguments: the family, then loops.

Hooks of even ranks are compiled where that form was built; those of odd ranks are Python's.
"""

import importlib
import os
import sys

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import choose_form

choose_form("mixed", int(os.environ["RINGTUNE_RANK"]))
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
hvd.init()
family = vars(importlib.import_module(f"tests.integration.training_loops.{sys.argv[1]}"))
for name in sys.argv[2:] or [name.removeprefix("loop_") for name in family if name.startswith("loop_")]:
    family[f"loop_{name}"]()
    say(f"{name}: agrees")
hvd.shutdown()
