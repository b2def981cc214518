# SPDX-License-Identifier: Apache-2.0
"""Trains for a few steps, and says how many gradients Python has seen in the last one: the rest were compiled hooks'.

Argument: the form of the hooks.
"""

import os
import sys
from unittest.mock import patch

import torch

import ringtune.torch as hvd
from ringtune.torch.gradients import GradientReducer
from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import choose_form

LAYERS, WIDTH, STEPS = 10, 64, 5
choose_form(sys.argv[1], int(os.environ["RINGTUNE_RANK"]))
torch.set_num_threads(1)
hvd.init()
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
)
ready = GradientReducer.gradient_ready
python_form = patch.object(GradientReducer, "gradient_ready", autospec=True, side_effect=ready).start()
for step in range(STEPS):
    python_form.reset_mock()
    optimizer.zero_grad()
    inputs = torch.full((4, WIDTH), 0.1 * (hvd.rank() + 1) * (step + 1))
    model(inputs).square().mean().backward()
    optimizer.step()
digest = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy().tobytes()
assert hvd.allgather_object(digest) == [digest] * hvd.size()
say(f"{python_form.call_count} of {2 * LAYERS} gradients came to Python")
hvd.shutdown()
