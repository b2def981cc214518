# SPDX-License-Identifier: Apache-2.0
"""Jobs on a Ray cluster: Horovod's `RayExecutor` and `ElasticRayExecutor`, and `RingtuneConfig` for Ray Train.

```python
from ringtune.ray import RayExecutor

with RayExecutor(num_workers=4) as executor:
    executor.start()
    executor.run(train)  # on every rank; train() calls hvd.init()
```
"""

from typing import TYPE_CHECKING, Any

from .elastic_executor import ElasticRayExecutor
from .errors import ElasticJobError, PlacementTimeoutError, WorkerLostError
from .executor import RayExecutor

if TYPE_CHECKING:
    from .train_backend import RingtuneConfig

__all__ = [
    "ElasticJobError",
    "ElasticRayExecutor",
    "PlacementTimeoutError",
    "RayExecutor",
    "RingtuneConfig",
    "WorkerLostError",
]


def __getattr__(name: str) -> Any:
    """Load `RingtuneConfig` when it is first asked for: Ray Train takes seconds to import and may not be installed."""
    if name != "RingtuneConfig":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .train_backend import RingtuneConfig  # noqa: PLC0415  (as above)

    return RingtuneConfig
