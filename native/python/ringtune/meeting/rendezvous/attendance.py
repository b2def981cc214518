# SPDX-License-Identifier: Apache-2.0
"""The workers that are connected to a rendezvous server: their connections, and the event that each waits for."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ringtune.errors import RingtuneError
from ringtune.system.printable import printable, shown

from .channel import Channel, ChannelError, Message, could_tell
from .conflicts import describe_failure
from .roster import Worker
from .site import Site

MAX_NAME_CHARACTERS = 500  # limit of a worker's or a host's name; the kernel's host names end at 64
MAX_PID = 2**31 - 1
MAX_MEETINGS = 10**9  # number of the latest meeting that a worker may claim: a server goes on from the largest
LEAST_PATIENCE_S = 5.0  # for those whose own time limit passes a little later than the first one's


@dataclass(frozen=True)
class Forming:
    """A meeting whose rank 0 has not sent its address yet; its workers by arrival, in the order of ranks."""

    number: int
    arrivals: tuple[int, ...]
    since_s: float


@dataclass
class Attendant:
    """One connected worker.

    Attributes:
        channel: Its connection, which lives as long as its process.
        site: Its location.
        worker: The worker, as it was at its latest meeting.
        waits_since_s: When it asked for a meeting, on the monotonic clock; None while it waits for none.
        patience_s: Seconds that it gives the others to ask for it too; infinity leaves that to the server.
        verdict: Error that it gets in the place of its next meeting.
        has_heard: Whether it has got the verdict; only its end is expected then.
    """

    channel: Channel
    site: Site
    worker: Worker
    waits_since_s: float | None = None
    patience_s: float = math.inf
    verdict: RingtuneError | None = None
    has_heard: bool = False

    @property
    def arrival(self) -> int:
        """The worker's number."""
        return self.worker.arrival

    @property
    def is_waiting(self) -> bool:
        """True if it waits for a meeting."""
        return self.waits_since_s is not None

    def condemn(self, verdict: RingtuneError) -> None:
        """Take the worker out of the job; the verdict is sent now if it waits, and else when it asks for a meeting."""
        self.verdict = self.verdict or verdict

    def ask(self, patience_s: object) -> None:
        """Take note that it asks for a meeting.

        Args:
            patience_s: See `patience_s`, as the worker sent it; a value that is no number is infinity.
        """
        self.waits_since_s = time.monotonic()
        self.patience_s = max(LEAST_PATIENCE_S, patience_s) if isinstance(patience_s, int | float) else math.inf


class Attendance:
    """All connected workers, by the number of their arrival."""

    def __init__(self) -> None:
        self._attendants: dict[int, Attendant] = {}
        self._next_arrival = 0
        self.broken: list[int] = []
        """Arrivals of workers to which a message could not be sent: they end."""

    def __iter__(self) -> Iterator[Attendant]:
        """Iterate over all, in the order of their arrival."""
        return iter(list(self._attendants.values()))

    def __len__(self) -> int:
        """Return their number."""
        return len(self._attendants)

    def find(self, arrival: int) -> Attendant | None:
        """Return a worker that is still connected."""
        return self._attendants.get(arrival)

    def read(self, channel: Channel, join: Message) -> Attendant:
        """Return a worker as its first message describes it, not yet added.

        Args:
            channel: Its connection.
            join: The message.

        Raises:
            ChannelError: If the message is malformed.
        """
        site = Site.from_text(join.get("site", ""))
        worker = Worker(
            arrival=self._next_arrival,
            worker_id=_name(join, "worker_id"),
            host=site.host,
            host_name=_name(join, "host_name"),
            pid=_number(join, "pid", MAX_PID) or 0,
            first_meeting=_number(join, "first_meeting", MAX_MEETINGS),
            meeting=_number(join, "meeting", MAX_MEETINGS),
            rank=_number(join, "rank", MAX_MEETINGS),
        )
        return Attendant(channel, site, worker)

    def add(self, attendant: Attendant) -> None:
        """Add a worker that `read` has returned."""
        self._attendants[attendant.arrival] = attendant
        self._next_arrival = attendant.arrival + 1

    def remove(self, attendant: Attendant) -> None:
        """Forget a worker that has ended."""
        self._attendants.pop(attendant.arrival, None)

    def live(self) -> list[Attendant]:
        """Return the workers that have no verdict."""
        return [attendant for attendant in self if attendant.verdict is None]

    def waiting(self) -> list[Attendant]:
        """Return those without a verdict that wait for a meeting, in the order of their arrival."""
        return [attendant for attendant in self.live() if attendant.is_waiting]

    def newcomers(self, meeting: int | None) -> list[Attendant]:
        """Return those that wait and have taken no part in a meeting."""
        return [one for one in self.waiting() if meeting is None or one.worker.meeting != meeting]

    def members_of(self, meeting: int | None) -> list[Attendant]:
        """Return those without a verdict that have taken part in a meeting, in the order of their ranks."""
        members = [one for one in self.live() if meeting is not None and one.worker.meeting == meeting]
        return sorted(members, key=lambda member: member.worker.rank or 0)

    def workers(self) -> list[Worker]:
        """Return the workers without a verdict."""
        return [attendant.worker for attendant in self.live()]

    def tell(self, attendants: Sequence[Attendant], message: Message) -> None:
        """Send a message; whoever does not take it ends."""
        self.broken += [attendant.arrival for attendant in attendants if not could_tell(attendant.channel, message)]

    def tell_verdicts(self) -> None:
        """Send their verdicts to those that wait."""
        for attendant in self:
            if attendant.verdict is not None and attendant.is_waiting and not attendant.has_heard:
                attendant.has_heard = True
                self.tell([attendant], {"type": "failed", **describe_failure(attendant.verdict)})


def _name(join: Message, field: str) -> str:
    """Return a name that is shown to people; one that would forge a line of theirs is shown with its escapes."""
    value = join.get(field)
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARACTERS:
        raise ChannelError(f"{field} of a worker is no text of at most {MAX_NAME_CHARACTERS} characters")
    return printable(value)


def _number(join: Message, field: str, most: int) -> int | None:
    value = join.get(field)
    if value is not None and (type(value) is not int or not 0 <= value <= most):
        raise ChannelError(f"{field} of a worker is {shown(value)}; allowed: 0 to {most}, or null")
    return value
