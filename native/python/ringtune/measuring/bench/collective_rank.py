# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant `collective`: the collectives over a host's shared memory, with no engine above them."""

import sys
from functools import partial

import numpy as np

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap import environment, find_place
from ringtune.meeting.rendezvous import Offer, open_meeting
from ringtune.session.submissions import DTYPES

from .results import REGISTERED
from .timing import Floats, Scheme, Way, aligned_zeros, measure, measure_sizes
from .workloads import ELEMENT_BYTES

LIMIT_S = 60.0


class CollectiveCaller:
    """Calls the engine's collective directly, with the algorithm and chunk that `auto` picks."""

    def __init__(self) -> None:
        place = find_place(environment(), 0, LIMIT_S)
        self.rank = place.rank
        self.ranks = place.world_size
        meeting = open_meeting(place, Offer({}, {}), LIMIT_S, _engine.create_segment)
        try:
            agreement = meeting.agree()
            if len(set(agreement.hosts)) > 1:
                raise ConfigError("the ranks do not share memory; this measures the ranks of one host")
            self._layer = _engine.CollectiveLayer(agreement.segment_fd, self.rank, self.ranks, LIMIT_S)
            agreement.close()
            meeting.conclude(None)
        finally:
            meeting.close()

    @property
    def laps(self) -> _engine.LapTimes:
        """Laps of this rank's allreduces."""
        return self._layer.laps

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, `calls` times."""
        self.allreduce_as("float32", data.ctypes.data, data.size, calls)

    def allreduce_as(self, dtype: str, address: int, elements: int, calls: int) -> None:
        """Sum elements of any type over all ranks, in place, `calls` times."""
        self._layer.allreduce(address, elements, DTYPES.index(dtype), calls)

    def registered_zeros(self, elements: int) -> Floats:
        """Return memory that every rank reaches where it is."""
        memory = self._layer.allocate_registered(elements * ELEMENT_BYTES).view(np.float32)
        memory.fill(0)
        return memory


def main() -> None:
    """Measure the scheme in the arguments with either kind of memory; a workload is one allreduce of as many bytes."""
    scheme, caller = Scheme.from_arguments(sys.argv[1:]), CollectiveCaller()
    memories = {"collective": aligned_zeros, f"collective, {REGISTERED}": caller.registered_zeros}
    for name, zeros in memories.items():
        measure_sizes(name, scheme, caller, zeros)
        for workload in scheme.workloads:
            data = zeros(workload.bytes // ELEMENT_BYTES)
            measure(Way(name, [data], partial(caller.allreduce, data), workload.name), scheme, caller)


if __name__ == "__main__":
    main()
