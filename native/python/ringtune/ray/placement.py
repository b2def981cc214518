# SPDX-License-Identifier: Apache-2.0
"""Places for workers in a Ray cluster: the request, and a time limit whose error lists the cluster's resources."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ringtune.errors import ConfigError

from .errors import PlacementTimeoutError

ANY_BUNDLE = -1
_SHOWN_NODES = 8


@dataclass(frozen=True)
class Team:
    """The workers that are asked for.

    Attributes:
        workers: Number of workers.
        cpus: CPUs of each.
        gpus: GPUs of each.
        hosts: Number of nodes, each with equally many workers; None lets Ray pack them.
    """

    workers: int
    cpus: float
    gpus: float
    hosts: int | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Resources of one worker."""
        return {name: amount for name, amount in (("CPU", self.cpus), ("GPU", self.gpus)) if amount}

    @property
    def bundles(self) -> list[dict[str, float]]:
        """Resources that Ray places together: a worker's, or all of a node's."""
        if self.hosts is None:
            return [self.resources] * self.workers
        share = self.workers // self.hosts
        return [{name: amount * share for name, amount in self.resources.items()}] * self.hosts

    @property
    def strategy(self) -> str:
        """Ray's strategy for the bundles."""
        return "PACK" if self.hosts is None else "STRICT_SPREAD"

    def __str__(self) -> str:
        each = resources_text(self.resources)
        spread = "" if self.hosts is None else f", {self.workers // self.hosts} on each of {self.hosts} nodes"
        return f"{self.workers} workers with {each} each{spread}"


class Placement:
    """A placement group, own or given, in which the workers start. Used as `with` or closed by hand."""

    def __init__(self, team: Team, group: Any, *, is_own: bool) -> None:
        self._team = team
        self._group = group
        self._is_own = is_own

    @classmethod
    def within(cls, team: Team, limit_s: float, current: Any | None) -> "Placement":
        """Return a placement for a team.

        Args:
            team: The workers.
            limit_s: Longest wait for the cluster.
            current: A placement group to use, None for a new one.

        Raises:
            PlacementTimeoutError: If the cluster has no room in time.
        """
        if current is not None:
            return cls(team, current, is_own=False)
        placed = cls(team, placement_group(team.bundles, strategy=team.strategy), is_own=True)
        is_ready = False
        try:
            is_ready = placed._group.wait(limit_s)
        finally:
            if not is_ready:
                placed.close()
        if not is_ready:
            raise PlacementTimeoutError(placed._shortage(limit_s))
        return placed

    def start(self, kind: Any, *args: Any) -> list[Any]:
        """Return new actors of a class, one for each worker.

        Raises:
            ConfigError: If a given placement group has no bundle that is large enough.
        """
        try:
            return [
                ray.remote(kind)
                .options(
                    num_cpus=self._team.cpus,
                    num_gpus=self._team.gpus,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(
                        self._group,
                        placement_group_bundle_index=self._bundle_of(number),
                        placement_group_capture_child_tasks=False,
                    ),
                )
                .remote(*args)
                for number in range(self._team.workers)
            ]
        except ValueError as error:
            raise ConfigError(
                f"the current placement group, with the bundles {self._bundles_text()}, has no room for a worker with "
                f"{resources_text(self._team.resources)} ({error}); reserve larger bundles, or set "
                "use_current_placement_group=False"
            ) from error

    def unanswered(self, missing: int, limit_s: float) -> PlacementTimeoutError:
        """Return the error for workers that have not started in time."""
        group = "the placement group" if self._is_own else "the current placement group"
        return PlacementTimeoutError(
            f"{missing} of {self._team} did not start within {limit_s:g} s in {group} with the bundles "
            f"{self._bundles_text()}; {cluster_text()}. Look into the logs of Ray's nodes, reserve more, or raise "
            "timeout_s"
        )

    def close(self) -> None:
        """Give the group's resources back, if it is an own one; idempotent."""
        if self._is_own:
            self._is_own = False
            with suppress(Exception):  # the cluster may be gone
                remove_placement_group(self._group)

    def _bundle_of(self, number: int) -> int:
        if not self._is_own:
            return ANY_BUNDLE
        return number if self._team.hosts is None else number // (self._team.workers // self._team.hosts)

    def _bundles_text(self) -> str:
        return ", ".join(resources_text(bundle) for bundle in self._group.bundle_specs)

    def _shortage(self, limit_s: float) -> str:
        return (
            f"Ray found no room for {self._team} within {limit_s:g} s; asked was for "
            f"{resources_text(total(self._team.bundles))} in all, and {cluster_text()}. Ask for less, end what holds "
            "the resources, add nodes, or raise placement_group_timeout_s"
        )


def total(bundles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the sum of some resources."""
    names = sorted({name for bundle in bundles for name in bundle})
    return {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}


def resources_text(resources: Mapping[str, float]) -> str:
    """Return CPUs and GPUs in words."""
    shown = [f"{amount:g} {name}" for name, amount in sorted(resources.items()) if name in {"CPU", "GPU"}]
    return " and ".join(shown) or "no CPU"


def cluster_text() -> str:
    """Return the cluster's resources, in words: in all, free, and on each node."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    each = [f"{node['NodeManagerAddress']} has {resources_text(node['Resources'])}" for node in nodes[:_SHOWN_NODES]]
    rest = f", and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
    return (
        f"the cluster has {resources_text(ray.cluster_resources())} on {len(nodes)} nodes, "
        f"{resources_text(ray.available_resources())} of it free ({', '.join(each)}{rest})"
    )
