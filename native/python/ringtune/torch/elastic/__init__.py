# SPDX-License-Identifier: Apache-2.0
"""Elastic training for PyTorch with Horovod's names and meanings; `hvd.elastic` of `import ringtune.torch as hvd`.

```python
@hvd.elastic.run
def train(state):
    for state.epoch in range(state.epoch, epochs):
        ...
        state.commit()

train(hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0))
```
"""

from ringtune.elastic import HostsUpdatedInterrupt, Resize, ResizePolicy, State, keep_learning_rate, run

from .resize import scale_learning_rate
from .sampler import ElasticSampler
from .states import ObjectState, TorchState

__all__ = [
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "Resize",
    "ResizePolicy",
    "State",
    "TorchState",
    "keep_learning_rate",
    "run",
    "scale_learning_rate",
]
