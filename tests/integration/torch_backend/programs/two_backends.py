# SPDX-License-Identifier: Apache-2.0
"""Names another backend for a second device, whose calls go there; usage: two_backends.py MEETING-FILE FORM.

The second backend is torch's own "fake", which leaves tensors as they are, and its device "meta".
"""

import os
import sys

import torch
from torch import distributed as dist
from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend)

from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import choose_form

rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
choose_form(sys.argv[2], rank)
dist.init_process_group("cpu:ringtune,meta:fake", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
tensor, elsewhere = torch.full((2,), rank + 1.0), torch.empty(2, device="meta")
dist.all_reduce(tensor)
dist.all_reduce(elsewhere)
dist.all_gather_into_tensor(torch.empty(2 * size, device="meta"), elsewhere)
dist.barrier()
say(f"sum {tensor.tolist()}")
dist.destroy_process_group()
