# SPDX-License-Identifier: Apache-2.0
"""Settings of a tuning run: its budget, its identity and the constants of the policy."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ringtune.tuner.logs.earlier import NOTHING_EARLIER, EarlierRuns
from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

DEFAULT_MAX_SAMPLES = 20
"""Maximum number of configs to try if no other limit is set: for launches, and for runs without a job."""
DEFAULT_MAX_SECONDS = 120.0
"""Budget in seconds of a job for which no limit is set."""
DEFAULT_LEAST_STEPS = 200
"""Minimum number of steps that such a job may take for tuning, however long they last.

Once the first minute is over, a search without any cost so far waits until one bad window would cost less than the
exploration budget, which takes 120 steps with windows of ten.
"""

MAX_STEPS = 1_000_000_000
"""Largest budget of steps that can be set."""
MAX_SECONDS = 604_800.0
"""Largest budget of seconds that can be set: a week."""


def share_of(limit: float, divisor: int) -> float:
    """Return a limit divided by `divisor`; samples and steps are rounded down, to at least 1."""
    return max(limit // divisor, 1) if isinstance(limit, int) else limit / divisor


def sample_limit(max_samples: int | None, max_steps: int | None, max_seconds: float | None) -> int | None:
    """Return the maximum number of configs to try; None if only a budget of steps or seconds limits the search.

    Args:
        max_samples: The user's choice, or None.
        max_steps: Budget of steps, or None.
        max_seconds: Budget of seconds, or None.
    """
    if max_samples is not None or max_steps is not None or max_seconds is not None:
        return max_samples
    return DEFAULT_MAX_SAMPLES


class Limits(NamedTuple):
    """Budget of a run; `RunSettings` describes the fields."""

    max_samples: int | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    least_steps: int = 0


def job_limits(max_samples: int | None, max_steps: int | None, max_seconds: float | None) -> Limits:
    """Return the budget of a tuned training job: the limits that its user has set, or the default if there are none."""
    if max_samples is None and max_steps is None and max_seconds is None:
        return Limits(max_seconds=DEFAULT_MAX_SECONDS, least_steps=DEFAULT_LEAST_STEPS)
    return Limits(max_samples, max_steps, max_seconds)


@dataclass(frozen=True)
class JobLabels:
    """Labels of a job, its code and its machines. They influence no decision.

    Attributes:
        job_name: Name of the job; None if it has none.
        tags: Words by which people find the job.
        commit: Commit of the job's code; None if unknown.
        hardware_name: Name that people give to the machines; None if they have none.
        machines: Facts behind the hardware's fingerprint, JSON-able; one entry per kind of host, with their number in
            `hosts`.
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
        max_samples: Maximum number of configs that the designer may suggest; None sets no limit.
        max_steps: Maximum number of the job's steps, the adoption test included; None sets no limit. If the target does
            not number the job's steps, only measured and skipped steps count.
        max_seconds: Maximum duration in seconds, the adoption test included; None sets no limit.
        least_steps: Steps of the job that the run may take even after `max_seconds`.
        warmup_steps: Steps before the baseline is measured; None waits until step times are stable.
        steps_per_sample: Steps per window, an upper bound if there is a budget; None derives them from the noise.
        fixed_windows: Whether the target alone decides the number of steps of a window, as launches do.
        at_once: Number of windows that baseline and search measure at the same time; above 1 for a `ParallelTarget`
            with fixed windows alone.
        seed: Seed of every random choice.
        key: The study's key (hardware, model, layout, target, surface_version), JSON-able.
        model_name: Name that people give to the model; None if it has none. Not part of the key.
        labels: Labels of the job and its machines. Not part of the key.
        layout: Ranks per host, JSON-able.
        versions: Versions of the software, JSON-able.
        begins_with: Names of the earlier runs that the search begins with, for people.
        run_id: Identifier of the run in the log.
        nothing_to_tune: Reason in the verdict if no parameter is free.
        prior_trials: Trials of an unfinished run of the same question, from `find_unfinished`.
        goes_on_from: Earlier runs of the same question, from `find_earlier`: their samples are those of this run, and
            count against its budget. None where the order of a log's runs says what belongs together.
        deadline_s: CPU time that a designer may use for an answer, seconds.
        adoption_pairs: Maximum number of interleaved pairs in the adoption test.
        baseline: Config that the job would run without this search; None is the target's own baseline.
        memory_limit_bytes: Limit of each rank's memory, for the log; None where memory is no constraint.
        policy: Constants of the policy.
    """

    max_samples: int | None = DEFAULT_MAX_SAMPLES
    max_steps: int | None = None
    max_seconds: float | None = None
    least_steps: int = 0
    warmup_steps: int | None = None
    steps_per_sample: int | None = None
    fixed_windows: bool = False
    at_once: int = 1
    seed: int = 0
    key: Mapping[str, Any] = field(default_factory=dict)
    model_name: str | None = None
    labels: JobLabels = JobLabels()
    layout: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    begins_with: tuple[str, ...] = ()
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    nothing_to_tune: str = "nothing to tune, every parameter is fixed"
    prior_trials: tuple[Trial, ...] = ()
    goes_on_from: EarlierRuns | None = None
    deadline_s: float = 30.0
    adoption_pairs: int = 12
    baseline: Config | None = None
    memory_limit_bytes: int | None = None
    policy: Policy = POLICY

    @property
    def earlier(self) -> EarlierRuns:
        """The earlier runs that this one goes on from, possibly none."""
        return NOTHING_EARLIER if self.goes_on_from is None else self.goes_on_from

    @property
    def has_budget(self) -> bool:
        """True if steps or seconds are limited."""
        return self.max_steps is not None or self.max_seconds is not None

    def share(self, divisor: int) -> "RunSettings":
        """Return the settings with each limit divided by `divisor`."""
        limits = {"max_samples": self.max_samples, "max_steps": self.max_steps, "max_seconds": self.max_seconds}
        parts = {name: None if limit is None else share_of(limit, divisor) for name, limit in limits.items()}
        return replace(self, **parts, least_steps=self.least_steps // divisor)  # type: ignore[arg-type]

    def limit_name(self, unit: str) -> str:
        """Return the name under which people set a limit: an environment variable of the job, or a launcher's option.

        Args:
            unit: Unit of the limit: `samples`, `steps` or `seconds`.
        """
        return f"--max-{unit}" if self.fixed_windows else f"AUTOTUNE_MAX_{unit.upper()}"

    @property
    def baseline_name(self) -> str:
        """Name of the baseline in a verdict."""
        return "default" if self.baseline is None else "what is in force"
