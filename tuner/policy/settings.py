# SPDX-License-Identifier: Apache-2.0
"""What a tuning run is told: its budget and identity, and the constants of the policy with their reasons."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

DEFAULT_MAX_SAMPLES = 20
"""Configs that a search may try where nothing limits it otherwise: of launches, and of runs without a job."""
DEFAULT_MAX_SECONDS = 120.0
"""Within which the tuner decides in a job for which nothing else is set."""
DEFAULT_LEAST_STEPS = 200
"""But that job has so many steps for it, however long they take. Once the first minute is over, a search that has cost
nothing yet waits until one bad window would cost less than its share, which is after 120 steps.
"""

MAX_STEPS = 1_000_000_000
"""The largest budget of steps that can be set."""
MAX_SECONDS = 604_800.0
"""The largest budget of seconds that can be set: a week."""


def share_of(limit: float, divisor: int) -> float:
    """Return one part of so many of a limit: of whole samples or steps one at least, of seconds a fraction."""
    return max(limit // divisor, 1) if isinstance(limit, int) else limit / divisor


def sample_limit(max_samples: int | None, max_steps: int | None, max_seconds: float | None) -> int | None:
    """Return how many configs a search may try; None for no limit of its own, beside a budget of steps or seconds.

    Args:
        max_samples: The user's choice, or None.
        max_steps: As of `RunSettings`.
        max_seconds: As of `RunSettings`.
    """
    if max_samples is not None or max_steps is not None or max_seconds is not None:
        return max_samples
    return DEFAULT_MAX_SAMPLES


class Limits(NamedTuple):
    """The budget of a run, as of `RunSettings`."""

    max_samples: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    least_steps: int = 0


def job_limits(max_samples: int | None, max_steps: int | None, max_seconds: float | None) -> Limits:
    """Return the budget of a job that trains meanwhile: what its user has set, or the default where nothing is."""
    if max_samples is None and max_steps is None and max_seconds is None:
        return Limits(max_seconds=DEFAULT_MAX_SECONDS, least_steps=DEFAULT_LEAST_STEPS)
    return Limits(max_samples, max_steps, max_seconds)


@dataclass(frozen=True)
class JobLabels:
    """Labels of a job, its code and its machines. Nothing is decided by it.

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
        max_samples: Configs the designer may suggest; None sets no limit.
        max_steps: Steps of the job that the run may take, the adoption test included; None sets no limit. From a
            target that does not number the job's steps, those that are measured or skipped.
        max_seconds: Seconds that the run may take, the adoption test included; None sets no limit.
        least_steps: Steps of the job that the run may take although its seconds are over.
        warmup_steps: Steps before the baseline is measured; None waits until step times are stable.
        steps_per_sample: Steps per window, at most where there is a budget; None chooses them from the noise seen.
        fixed_windows: Whether the target alone decides how many steps a window has, as launches do.
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
        baseline: The config the job would run without this search; None is the target's own baseline.
        policy: The numbers of the policy.
    """

    max_samples: int | None = DEFAULT_MAX_SAMPLES
    max_steps: int | None = None
    max_seconds: float | None = None
    least_steps: int = 0
    warmup_steps: int | None = None
    steps_per_sample: int | None = None
    fixed_windows: bool = False
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
    policy: Policy = POLICY

    @property
    def has_budget(self) -> bool:
        """Whether steps or seconds are limited."""
        return self.max_steps is not None or self.max_seconds is not None

    def share(self, divisor: int) -> "RunSettings":
        """Return the settings with one part of so many of each limit."""
        limits = {"max_samples": self.max_samples, "max_steps": self.max_steps, "max_seconds": self.max_seconds}
        parts = {name: None if limit is None else share_of(limit, divisor) for name, limit in limits.items()}
        return replace(self, **parts, least_steps=self.least_steps // divisor)  # type: ignore[arg-type]

    def limit_name(self, unit: str) -> str:
        """Return what people set a limit by: a variable of the job's environment, or an option where it is launched.

        Args:
            unit: `samples`, `steps` or `seconds`.
        """
        return f"--max-{unit}" if self.fixed_windows else f"AUTOTUNE_MAX_{unit.upper()}"

    @property
    def baseline_name(self) -> str:
        """What the baseline is called in a verdict."""
        return "default" if self.baseline is None else "what is in force"
