# SPDX-License-Identifier: Apache-2.0
"""Have the tuner's work logged where the training's metrics are: MLflow, TensorBoard, or a callback of one's own.

```python
import ringtune.callbacks
import ringtune.torch as hvd

ringtune.callbacks.add(ringtune.callbacks.MlflowCallback())  # on every rank: only rank 0's is ever called
hvd.init()
```
"""

from ringtune.tuning.job.callbacks import Callback, Moment

from .mlflow_callback import MlflowCallback
from .registration import add, remove
from .tensorboard_callback import TensorBoardCallback

__all__ = ["Callback", "MlflowCallback", "Moment", "TensorBoardCallback", "add", "remove"]
