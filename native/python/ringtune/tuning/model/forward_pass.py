# SPDX-License-Identifier: Apache-2.0
"""Facts of a forward pass: the tensors of its output, and whether it is captured into a CUDA graph."""

import torch
from torch.nn.parallel.distributed import _find_tensors


def is_captured(device: torch.device) -> bool:
    """Return whether the kernels launched now go into a CUDA graph."""
    return device.type == "cuda" and bool(torch.cuda.is_current_stream_capturing())


def output_tensors(output: object) -> list[torch.Tensor]:
    """Return the tensors in a model's output, also inside lists, mappings and dataclasses, as DDP finds them."""
    return list(_find_tensors(output))
