# SPDX-License-Identifier: Apache-2.0
"""Training functions for Ray Train's workers; each rank leaves its facts in a folder."""

import json
import os
from pathlib import Path
from typing import Any

import ray.train
import torch

import ringtune.torch as hvd

FIRST = "the first attempt"


def place(config: dict[str, Any]) -> None:
    """Join, reduce, and note where this rank is; with `fails`, rank 1 raises in its first attempt.

    Args:
        config: `folder`, and `fails`.
    """
    folder = Path(config["folder"])
    hvd.init()
    total = hvd.allreduce(torch.ones(1), op=hvd.Sum).item()
    mark = folder / FIRST
    if config["fails"] and hvd.rank() == 1 and not mark.exists():
        mark.touch()
        raise LookupError("mine, on rank 1")
    hvd.allreduce(torch.ones(1))
    context = ray.train.get_context()
    facts = {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "sum": total,
        "ray": [context.get_world_rank(), context.get_world_size(), context.get_local_rank()],
        "ours": [hvd.rank(), hvd.size(), hvd.local_rank()],
        "has_process_group": torch.distributed.is_initialized(),
        "meeting": os.environ.get("RINGTUNE_JOB_DIGEST"),
        "model": os.environ.get("AUTOTUNE_MODEL"),
    }
    (folder / f"{hvd.rank()}.json").write_text(json.dumps(facts), encoding="utf-8")
    ray.train.report({"sum": total})
