# SPDX-License-Identifier: Apache-2.0
"""Compare a measured algorithm table with the compiled-in one, at the sizes where they differ.

Start it by `ringtune run -np 2 python benchmarks/engine/algorithm_table.py`. The table is the newest one of this
machine for this number of ranks, measured now if there is none, or the one in `--file`. The tables take turns within
each pair of one launch. Rank 0 prints the medians, and the ratios of the pairs with their 95 % interval.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

import ringtune.torch as hvd
from ringtune._engine import default_algorithm_table
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, paired_ratio
from ringtune.session.session import SESSION
from ringtune.world.algorithm_tables.store import TableStore, read_table
from ringtune.world.algorithm_tables.table import TableRow

KIB = 1024
SIZES_BYTES = tuple(KIB << shift for shift in range(17))
BYTES_PER_BLOCK = 32 << 20
MAX_CALLS = 200
MIN_CALLS = 5

Rows = Sequence[TableRow]


def newest_file() -> Path:
    """Return the file of the table that was kept last for this world's ranks per host; every rank is on one machine."""
    layout = sorted(SESSION.require().layout.ranks_per_host)
    kept = TableStore.of_user(os.environ).tables()
    return max(
        (path for path, table in kept if table and table.key["layout"] == layout), key=lambda p: p.stat().st_mtime
    )


def used_at(rows: Rows, size_bytes: int) -> tuple[str, int]:
    """Return the algorithm and the chunk that a table has for a size."""
    row = next(row for row in rows if row.max_bytes is None or size_bytes <= row.max_bytes)
    return row.algorithm, row.chunk_bytes


def block_us(tensor: torch.Tensor, rows: Rows, calls: int) -> float:
    """Return the mean time of blocking allreduces under a table, microseconds."""
    if hvd.rank() == 0:
        SESSION.require().engine.set_algorithm_table(rows)
    hvd.barrier()
    start_s = time.perf_counter()
    for _ in range(calls):
        hvd.allreduce_(tensor, name=str(tensor.numel()), op=hvd.Sum)
    return (time.perf_counter() - start_s) / calls * 1e6


def measure(size_bytes: int, tables: Sequence[Rows], pairs: int) -> list[list[float]]:
    """Return each table's microseconds, one value per pair; the first one of a pair alternates."""
    tensor = torch.zeros(size_bytes // 4)
    calls = max(MIN_CALLS, min(MAX_CALLS, BYTES_PER_BLOCK // size_bytes))
    times: list[list[float]] = [[] for _ in tables]
    block_us(tensor, tables[0], calls)
    for pair in range(pairs):
        order = range(len(tables)) if pair % 2 == 0 else reversed(range(len(tables)))
        for number in order:
            times[number].append(block_us(tensor, tables[number], calls))
    return times


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description="Compare a measured algorithm table with the compiled-in one.")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--pairs", type=int, default=15, help=f"at least {MIN_PAIRS}")
    arguments = parser.parse_args()
    hvd.init()
    hvd.barrier()  # rank 0 has kept what it measured
    compiled_in = [TableRow(*row) for row in default_algorithm_table(SESSION.require().layout.hosts)]
    tables = (read_table(arguments.file or newest_file()).rows, compiled_in)
    table = Table("KiB", "measured table", "us", "compiled in", "us", "ratio", "95 %")
    for size_bytes in SIZES_BYTES:
        used = [used_at(rows, size_bytes) for rows in tables]
        if used[0] != used[1]:
            times = measure(size_bytes, tables, arguments.pairs)
            cells = [
                text
                for (name, chunk), own in zip(used, times, strict=True)
                for text in (f"{name}, {chunk // KIB} KiB", f"{median(own):.0f}")
            ]
            ratio = paired_ratio(*times)
            table.add_row(str(size_bytes // KIB), *cells, f"{ratio.median:.3f}", str(ratio))
    if hvd.rank() == 0:
        Console(width=120).print(table)
    hvd.shutdown()


if __name__ == "__main__":
    main()
