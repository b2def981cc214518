# SPDX-License-Identifier: Apache-2.0
"""Counts the steps of a script's first optimizer, times those after the warm-up, and ends the script after enough.

All ranks of a data-parallel job step alike, so that all end at the same step without a word to each other. Rank 0
measures: from the end of the last warm-up step to the end of the last step that counts, evaluation and checkpoints
between them included.
"""

import sys
import time
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_post_hook

from .messages import ENGINE_SESSION, RecordWriter, RunOrder
from .script_facts import Refusal, ScriptFacts

PROGRESS_S = 0.5
WRAPS_NOTHING = (
    "wraps neither a model in torch.nn.parallel.DistributedDataParallel nor an optimizer in "
    "ringtune.torch.DistributedOptimizer"
)


class EnoughSteps(SystemExit):
    """The run has made its steps; unwinds the script, whose `finally` blocks run."""


class StepCounter:
    """The steps of one rank."""

    def __init__(self, order: RunOrder, facts: ScriptFacts, reporter: RecordWriter, *, is_measuring: bool) -> None:
        """Begin without a step.

        Args:
            order: Number of steps to run.
            facts: Facts of the script; checked at the first step.
            reporter: Takes records.
            is_measuring: Whether this rank reports: rank 0 does.
        """
        self._order = order
        self._facts = facts
        self._reporter = reporter
        self._is_measuring = is_measuring
        self._optimizer: Any = None
        self._count = 0
        self._begin_s = self._last_s = self._told_s = 0.0
        self._is_reported = False
        self._has_engine_worked = False

    def install(self) -> None:
        """Have torch call this counter after each step of any optimizer."""
        register_optimizer_step_post_hook(self.after_step)

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step of the first optimizer.

        Raises:
            EnoughSteps: After the last.
            NotComparable: At the first, where the script cannot be compared.
        """
        del args, kwargs
        if self._optimizer is None:
            self._note_groups(optimizer)
            Refusal(self._reporter).check(self._facts)
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return
        self._count += 1
        self._has_engine_worked = self._has_engine_worked or _has_engine_worked()
        is_last = self._count >= self._order.warmup_steps + self._order.steps
        if is_last or self._count == self._order.warmup_steps:
            _finish_device()
        self._last_s = time.monotonic()
        if self._count == self._order.warmup_steps:
            self._begin_s = self._last_s
        if self._is_measuring and self._last_s >= self._told_s + PROGRESS_S:
            self._told_s = self._last_s
            self._reporter.write("progress", steps=self._count)
        if is_last:
            self.report(did_script_end=False)
            raise EnoughSteps(0)

    def _note_groups(self, optimizer: Any) -> None:
        """Note the facts of a script that averages gradients itself, or by other means than DDP."""
        facts = self._facts
        if not facts.ddp_models and not facts.optimizers:
            facts.own_groups = facts.own_groups or WRAPS_NOTHING
            facts.note_parameters(parameter for group in optimizer.param_groups for parameter in group["params"])
        if facts.own_groups:
            facts.backend = _backend_of_cpu()

    def report(self, *, did_script_end: bool) -> None:
        """Report the measurement, once.

        Args:
            did_script_end: Whether the script came to its own end before enough steps.
        """
        if not self._is_measuring or self._is_reported:
            return
        self._is_reported = True
        steps = max(self._count - self._order.warmup_steps, 0)
        seconds = self._last_s - self._begin_s if steps else 0.0
        used = {"engine_bytes": _engine_bytes(), "has_engine_worked": self._has_engine_worked}
        facts = {**self._facts.to_json(), **used}
        self._reporter.write("measured", steps=steps, seconds=seconds, did_script_end=did_script_end, facts=facts)


def _engine_bytes() -> int:
    """Return the bytes that ringtune's engine has reduced on this rank, 0 where it was never started."""
    session = sys.modules.get(ENGINE_SESSION)
    if session is None or not session.SESSION.is_initialized:
        return 0
    return int(session.SESSION.require().engine.counters()["bytes_reduced"])


def _has_engine_worked() -> bool:
    """Return whether an engine of this rank has moved a tensor, in any process group."""
    session = sys.modules.get(ENGINE_SESSION)
    return session is not None and any(world.engine.counters()["tensors"] for world in session.SESSION.worlds)


def _backend_of_cpu() -> str:
    """Return the backend of the default process group for the CPU; empty where there is none."""
    if not dist.is_available() or not dist.is_initialized():
        return ""
    config = distributed_c10d.BackendConfig(distributed_c10d.Backend(distributed_c10d.get_backend_config()))
    return str(config.get_device_backend_map().get("cpu", ""))


def _finish_device() -> None:
    """Wait for the GPU, which may have steps still to do that the host is through with."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
