# SPDX-License-Identifier: Apache-2.0
"""What a tuning run is told: its budget and identity, and the constants of the policy with their reasons."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .config import Config
from .sample import Trial


@dataclass(frozen=True)
class JobLabels:
    """What people call a job, its code and its machines. Nothing is decided by it.

    Attributes:
        job_name: A name; None leaves it unnamed.
        tags: Words to find it by.
        commit: Of the job's code; None where it is not known.
        hardware_name: What people call the machines; None leaves them to their facts.
        machines: The facts behind the hardware's fingerprint, JSON-able; hosts that are alike are one, `hosts` of them.
    """

    job_name: str | None = None
    tags: tuple[str, ...] = ()
    commit: str | None = None
    hardware_name: str | None = None
    machines: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class RunSettings:
    """Budget, reproducibility and identity of a tuning run.

    Attributes:
        max_samples: Configs the designer may suggest.
        max_steps: Steps that may be measured or skipped in all, the adoption test included; None sets no limit.
        warmup_steps: Steps before the baseline is measured; None waits until step times are stable.
        steps_per_sample: Steps per window, at most where `max_steps` is set; None chooses them from the noise seen.
        seed: Decides every random choice.
        key: The study's key (hardware, model, layout, target, surface_version), JSON-able.
        model_name: What people call the model; None leaves it unnamed. Not part of the key.
        labels: What people call the job and its machines. Not part of the key.
        layout: Ranks per host, JSON-able.
        versions: Versions of the software, JSON-able.
        run_id: Names the run in the log.
        nothing_to_tune: The verdict where no parameter is free.
        prior_trials: Trials of an unfinished run of the same question, from `find_unfinished`.
        deadline_s: Processor's time that a designer may use for an answer, seconds.
        adoption_pairs: Interleaved pairs of the adoption test, at most.
        baseline: What the job would run without this search; None is the target's own baseline.
    """

    max_samples: int = 20
    max_steps: int | None = None
    warmup_steps: int | None = None
    steps_per_sample: int | None = None
    seed: int = 0
    key: Mapping[str, Any] = field(default_factory=dict)
    model_name: str | None = None
    labels: JobLabels = JobLabels()
    layout: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    nothing_to_tune: str = "nothing to tune, every parameter is fixed"
    prior_trials: tuple[Trial, ...] = ()
    deadline_s: float = 30.0
    adoption_pairs: int = 12
    baseline: Config | None = None

    @property
    def baseline_name(self) -> str:
        """What the baseline is called in a verdict."""
        return "default" if self.baseline is None else "what is in force"
