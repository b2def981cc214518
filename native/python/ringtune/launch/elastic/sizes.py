# SPDX-License-Identifier: Apache-2.0
"""Limits of an elastic job: how many workers, how long it waits for them, how often their number may change."""

from dataclasses import dataclass, field

from ringtune.errors import ConfigError

from .host_table import Cooldown

DEFAULT_ELASTIC_TIMEOUT_S = 600.0
NO_LIMIT = float("inf")


@dataclass(frozen=True)
class WorldLimits:
    """Limits of one job.

    Attributes:
        min_workers: Smallest number that trains.
        first_workers: Number that the first meeting waits for, as long as `start_s`.
        max_workers: Largest number that trains; infinity: as many as there are slots.
        start_s: Time for the first workers to come, and for a host to answer.
        elastic_s: Time during which there may be too few workers; then the job ends.
        reset_limit: Number of meetings after the first; None for any.
        cooldown: Pauses of a host whose workers fail.
    """

    min_workers: int
    first_workers: int
    max_workers: float = NO_LIMIT
    start_s: float = 30.0
    elastic_s: float = DEFAULT_ELASTIC_TIMEOUT_S
    reset_limit: int | None = None
    cooldown: Cooldown = field(default_factory=Cooldown)

    def __post_init__(self) -> None:
        """Check the order of the numbers.

        Raises:
            ConfigError: If they contradict each other.
        """
        if not 1 <= self.min_workers <= self.first_workers <= self.max_workers:
            most = "" if self.max_workers == NO_LIMIT else f", --max-np {self.max_workers:g}"
            raise ConfigError(
                f"--min-np {self.min_workers}, -np {self.first_workers}{most} are not in "
                "order; the smallest number of workers comes first, -np lies between"
            )
        if self.cooldown.shortest_s > self.cooldown.longest_s:
            raise ConfigError(
                f"--blacklist-cooldown-range {self.cooldown.shortest_s:g} {self.cooldown.longest_s:g}: the shortest "
                "pause of a host comes first, then the longest"
            )
