# SPDX-License-Identifier: Apache-2.0
"""Tunes the buckets of an unmodified `torch.nn.parallel.DistributedDataParallel`, on the process group it already has.

```python
torch.distributed.init_process_group("nccl")
model = DistributedDataParallel(model)
tuner = autotune(model)  # on every rank; the training loop stays as it is
```
"""

from .tuning import DdpTuner, autotune

__all__ = ["DdpTuner", "autotune"]
