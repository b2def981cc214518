# SPDX-License-Identifier: Apache-2.0
"""Negotiation: the time until all ranks know that a tensor is ready everywhere, through leaders of hosts and rank 0.

Ranks are identical, so one rank's request represents all. Only the work of rank 0 and of the leaders, and the load of
their links, grows with the world. All times are in milliseconds.
"""

from dataclasses import dataclass

from .cluster import Cluster
from .collectives import US_TO_MS
from .machine import SimulatedMachine

RESPONSE_BYTES = 64.0
"""Size of a response that names its tensors by cache ids: a header and a few runs of ids."""


@dataclass(frozen=True)
class Negotiation:
    """Control plane of a job.

    Attributes:
        machine: Cost constants.
        cluster: Cluster of the job.
        has_cache: Whether tensors are named by cache ids.
    """

    machine: SimulatedMachine
    cluster: Cluster
    has_cache: bool

    def request_ms(self, tensors: int) -> float:
        """Return the work of a rank to request the tensors of a batch."""
        return (self.machine.request_us + tensors * self.machine.request_tensor_us) * US_TO_MS

    def way_to_coordinator_ms(self, tensors: int) -> float:
        """Return the time from a rank's request to the arrival of the last rank's request at rank 0."""
        local_ms = self.machine.hand_over_us * US_TO_MS
        if self.cluster.hosts == 1:
            return local_ms
        return local_ms + self._leader_ms(tensors) + self._flight_ms() + self._inbound_ms(tensors)

    def answer_ms(self, tensors: int) -> float:
        """Return the work of rank 0 from all ranks' requests for these tensors to its responses."""
        machine, cluster = self.machine, self.cluster
        far_hosts, ranks = cluster.hosts - 1, cluster.ranks_per_host
        if self.has_cache:
            local_us = ranks * (machine.message_us + tensors * machine.local_id_us)
            far_us = far_hosts * (machine.message_us + tensors * ranks * machine.forwarded_id_us)
        else:
            named_us = machine.message_us + tensors * machine.named_tensor_us
            local_us, far_us = ranks * named_us, far_hosts * ranks * named_us
        return (local_us + far_us + tensors * machine.ready_tensor_us) * US_TO_MS

    def way_back_ms(self, tensors: int, responses: int) -> float:
        """Return the time from rank 0's responses until the last rank reads the first of them."""
        local_ms = self.machine.hand_over_us * US_TO_MS
        far_hosts = self.cluster.hosts - 1
        if far_hosts == 0:
            return local_ms
        size = responses * RESPONSE_BYTES + (0.0 if self.has_cache else tensors * self.machine.named_tensor_bytes)
        sending_ms = far_hosts * responses * self.machine.socket_message_us * US_TO_MS
        return local_ms + sending_ms + self._flight_ms() + self._link_ms(far_hosts * size)

    def _leader_ms(self, tensors: int) -> float:
        machine, ranks = self.machine, self.cluster.ranks_per_host
        per_tensor_us = machine.local_id_us if self.has_cache else machine.named_leader_us
        return ranks * (machine.message_us + tensors * per_tensor_us) * US_TO_MS

    def _flight_ms(self) -> float:
        return (self.cluster.link.latency_us + 2 * self.machine.socket_message_us) * US_TO_MS

    def _inbound_ms(self, tensors: int) -> float:
        """Return the time in which rank 0's link receives the other hosts' requests: a list each, or all names."""
        far_hosts = self.cluster.hosts - 1
        if self.has_cache:
            return self._link_ms(far_hosts * RESPONSE_BYTES)
        return self._link_ms(far_hosts * self.cluster.ranks_per_host * tensors * self.machine.named_tensor_bytes)

    def _link_ms(self, size: float) -> float:
        return size / (self.cluster.link.bytes_per_s * self.machine.link_payload_share) * 1e3
