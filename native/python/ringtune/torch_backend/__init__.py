# SPDX-License-Identifier: Apache-2.0
"""The `torch.distributed` backend "ringtune": process groups whose collectives run on the engine.

```python
torch.distributed.init_process_group("ringtune")
```

Torch loads `registration` by an entry point. The engine is loaded with the first process group.
"""
