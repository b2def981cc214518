# SPDX-License-Identifier: Apache-2.0
"""A problem: a job to be tuned whose true step times are known, so that a pick can be judged."""

from abc import ABC, abstractmethod
from typing import Protocol

from ringtune.tuner import Config, Prior, Target

FLAT_GAIN = 0.02
"""Largest gain of the best config, a fraction, at which keeping the baseline is the right answer."""
NEAR = 0.02
"""Regret, a fraction, up to which a config counts as the optimum."""


class TimedTarget(Target, Protocol):
    """A target on a clock of its own, of whose time `paused_s` were pauses."""

    now_s: float
    paused_s: float

    def clock(self) -> float:
        """Return `now_s`."""


class Problem(ABC):
    """A job with its noise and its true step times.

    Attributes:
        name: Unique among problems.
        kind: `simulated`, `drawn` (simulated, by a rule), `recorded` (a surface of this engine's), `public`
            (measurements of others) or `relaunched` (the same, every window a launch of its own).
        step_noise: Standard deviation of ln(step time) between steps.
        ranks_per_host: Layout of a job of this engine, whose default begins it; empty where others chose the default.
        is_inert: Whether the knobs have no effect (A/A): any change is an error of the first kind.
        data_digest: Identifies the measurements that it consists of; empty where it is code alone.
    """

    name: str
    kind: str
    step_noise: float
    ranks_per_host: tuple[int, ...] = ()
    is_inert: bool = False
    data_digest: str = ""

    @abstractmethod
    def target(self, seed: int) -> TimedTarget:
        """Return the job as a new target whose noise the seed decides."""

    @abstractmethod
    def step_ms(self, config: Config) -> float:
        """Return a config's true step time, milliseconds."""

    @property
    @abstractmethod
    def baseline(self) -> Config:
        """The config without tuning."""

    @property
    @abstractmethod
    def optimum_ms(self) -> float:
        """The shortest true step, milliseconds."""

    @property
    @abstractmethod
    def without_noise(self) -> "Problem":
        """The same, on a machine on which every step of a config takes as long."""

    @abstractmethod
    def cost_model(self, seed: int) -> Prior | None:
        """Return the cost model that a job has at its start; None without one."""

    @property
    def is_flat(self) -> bool:
        """True where the best config is hardly faster than the baseline."""
        return self.baseline_ms / self.optimum_ms - 1.0 < FLAT_GAIN

    @property
    def baseline_ms(self) -> float:
        """The baseline's true step time, milliseconds."""
        return self.step_ms(self.baseline)

    def regret(self, config: Config) -> float:
        """Return by which fraction a config's steps are longer than the shortest."""
        return self.step_ms(config) / self.optimum_ms - 1.0

    def loss(self, config: Config) -> float:
        """Return by which fraction a config's steps are longer than the baseline's."""
        return self.step_ms(config) / self.baseline_ms - 1.0
