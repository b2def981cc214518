# SPDX-License-Identifier: Apache-2.0
"""Agreement of ranks that have a channel already, a store or an MPI, on the address and the key of their meeting.

Every rank sends its host and network; rank 0 chooses an address that all can reach, listens there, and broadcasts
address and job key. That channel is trusted: every process that can read it can join the job.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.place import Place
from ringtune.meeting.rendezvous.site import Site, meeting_place, own_site

KEY_BYTES = 32


class RankChannel(Protocol):
    """A channel between ranks that have not met yet. Both calls are made by every rank, once, in order."""

    def gather(self, text: str) -> Sequence[str]:
        """Give this rank's text; on rank 0 return all ranks' in their order, elsewhere anything."""

    def spread(self, text: str) -> str:
        """Return rank 0's text; the other ranks' arguments are ignored."""


def arrange(place: Place, exchange: RankChannel, towards: str = "") -> Place:
    """Return the place completed with address and job key, and on rank 0 with the open listener.

    Args:
        place: Without them.
        exchange: Channel between the ranks.
        towards: A host whose interface is preferred, such as the store's; empty for none.

    Raises:
        ConfigError: If rank 0 cannot listen where all could reach it; on every rank.
    """
    texts = exchange.gather(own_site(towards).to_text())
    if place.rank != 0:
        answer = json.loads(exchange.spread(""))
        if "failure" in answer:
            raise ConfigError(str(answer["failure"]))
        return replace(place, address=Address.parse(answer["address"]), job_key=bytes.fromhex(answer["job_key"]))
    key = secrets.token_bytes(KEY_BYTES)
    try:
        listener = listen(meeting_place([Site.from_text(text) for text in texts]))
    except ConfigError as error:
        exchange.spread(json.dumps({"failure": f"rank 0: {error}"}))
        raise
    address = bound_address(listener)
    try:
        exchange.spread(json.dumps({"address": str(address), "job_key": key.hex()}))
    except BaseException:
        listener.close()
        raise
    return replace(place, address=address, job_key=key, listener=listener)
