# SPDX-License-Identifier: Apache-2.0
"""Torch's CUDA streams, as the engine takes them: by number.

A thread has a current stream on every device. What torch enqueues there runs in order; an operation of the engine on a
tensor of that device acts as if it were enqueued there too.
"""

from typing import Any

import torch


class CudaStreams:
    """The calling thread's current streams; see `ringtune.handles.Streams`."""

    def current(self, device: int) -> int:
        """Return the number of the current stream on a device; 0 is the default stream."""
        # Half a microsecond; torch.cuda.current_stream() takes three, and every gradient asks twice.
        stream: int = torch._C._cuda_getCurrentRawStream(device)  # noqa: SLF001
        return stream

    def note_use(self, owner: Any, device: int) -> None:
        """Let torch reuse the memory of a tensor only after what was enqueued on the current stream so far."""
        owner.record_stream(torch.cuda.current_stream(device))


CUDA_STREAMS = CudaStreams()
