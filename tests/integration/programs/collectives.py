# SPDX-License-Identifier: Apache-2.0
"""Checks the torch front end in a few dtypes and shapes, however its ranks were launched."""

import torch

import ringtune.torch as hvd
from tests.collectives.cases import bound
from tests.collectives.torch_front_end import TorchFrontEnd
from tests.integration.plain_rank import say

torch.set_num_threads(1)
hvd.init()
assert (hvd.rank(), hvd.size()) == (hvd.local_rank(), hvd.local_size())
for case in bound(TorchFrontEnd(is_brief=True)).values():
    case()
hvd.barrier()
say(f"rank {hvd.rank()} of {hvd.size()} is right")
hvd.shutdown()
