# SPDX-License-Identifier: Apache-2.0
"""Time allreduces of 16-bit floats beside float32, of as many elements.

Start it by `ringtune run -np 2 python benchmarks/dtypes.py`. The types take turns within each round of one launch;
rank 0 prints medians over the rounds, and the median of each round's ratio to float32.
"""

import argparse
import time
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

import ringtune.torch as hvd

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ELEMENTS = (1 << 18, 1 << 20, 1 << 22, 1 << 24)


def call_us(tensor: torch.Tensor, calls: int) -> float:
    """Return microseconds per blocking call on this rank, over as many calls."""
    hvd.barrier()
    start_s = time.perf_counter()
    for _ in range(calls):
        hvd.allreduce_(tensor, name=f"{tensor.dtype} {tensor.numel()}", op=hvd.Sum)
    return (time.perf_counter() - start_s) / calls * 1e6


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description="Time allreduces of 16-bit floats beside float32.")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    hvd.init()
    table = Table("elements", "dtype", "us", "÷ float32")
    for elements in ELEMENTS:
        tensors = [torch.zeros(elements, dtype=dtype) for dtype in DTYPES]
        calls = max(2, (1 << 22) // elements)
        rounds = [[call_us(tensor, calls) for tensor in tensors] for _ in range(1 + arguments.rounds)][1:]
        for number, dtype in enumerate(DTYPES):
            us = median(times[number] for times in rounds)
            ratio = median(times[number] / times[0] for times in rounds)
            table.add_row(f"{elements:,}", str(dtype).removeprefix("torch."), f"{us:,.0f}", f"{ratio:.2f}")
    if hvd.rank() == 0:
        Console().print(table)
    hvd.shutdown()


if __name__ == "__main__":
    main()
