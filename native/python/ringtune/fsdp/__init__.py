# SPDX-License-Identifier: Apache-2.0
"""Tunes a model under PyTorch's FSDP2 (`fully_shard`) while it trains, on the process group that it already has.

```python
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
tuner = autotune(model)  # on every rank; the training loop stays as it is
```
"""

from .tuning import FsdpTuner, apply, autotune

__all__ = ["FsdpTuner", "apply", "autotune"]
