# SPDX-License-Identifier: Apache-2.0
"""Server that gives ranks to workers as they arrive: `RINGTUNE_RENDEZVOUS=join://HOST:PORT`.

A worker proves that it holds the job key and keeps its connection open for the life of its process, so that its end is
noticed at once. It asks for a meeting at each `init()`. A roster decides when a meeting begins and in which order the
workers get ranks. Rank 0 then listens and says where, and the server tells the others. The key of a meeting is made
from the job key on both sides and never travels.

A foreign event loop serves it: `fileno()`, `serve_ready()`, `next_look_s()`. No act of a worker raises an error there.
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ringtune.errors import DismissedError, RendezvousError, RingtuneError
from ringtune.system.counts import counted
from ringtune.system.event_loop import EventLoop
from ringtune.system.printable import shown

from .address import Address, bound_address, listen
from .admission import Caller, acceptor_of_members
from .attendance import Attendance, Attendant, Forming
from .channel import ChannelError, Message
from .progress import Progress
from .proof import JOIN_PURPOSE, NO_RANK, Membership, new_nonce
from .roster import Gathering, Roster, Worker
from .tls import CLEAR, Tls

MAX_FAILURE_CHARACTERS = 500  # limit of the text of a worker that fails


@dataclass(frozen=True)
class Patience:
    """Time limits of a rendezvous server, seconds.

    Attributes:
        meeting_s: Limit of the wait for enough workers, while none trains; then all that wait get an error.
        grace_s: Time after which a worker is expelled that holds up a meeting: one of the latest meeting that has not
            asked for the next, counted from the first that has; or a new rank 0 that does not listen. A worker whose
            collective has waited for the others for the whole time limit may shorten it.
    """

    meeting_s: float = 600.0
    grace_s: float = 60.0


class RendezvousServer:
    """Gives places to workers, meeting by meeting. Used by one thread.

    Attributes:
        address: Its address, as `RINGTUNE_RENDEZVOUS` takes it.
        has_given_up: Whether there were not enough workers in time; those that waited have got an error.
    """

    def __init__(
        self,
        job_key: bytes,
        host: str,
        roster: Roster,
        port: int = 0,
        *,
        patience: Patience | None = None,
        tls: Tls = CLEAR,
    ) -> None:
        """Listen on one interface of this host.

        Args:
            job_key: Secret of the job.
            host: This host's address that the workers reach; see `interfaces.route_address`.
            roster: Decides which workers meet.
            port: Port; 0 lets the kernel choose.
            patience: Time limits; None for the defaults.
            tls: Protection of the workers' connections.

        Raises:
            ConfigError: If that is not possible.
        """
        listener = listen(Address("tcp", host, port))
        bound = bound_address(listener)
        self.address = str(Address("join", bound.host, bound.port))
        self._roster = roster
        self._patience = patience or Patience()
        self._loop = EventLoop()
        self._attendance = Attendance()
        self._forming: Forming | None = None
        self._next_number = 0
        self._latest: int | None = None
        self._changed_s = time.monotonic()
        self._short_since_s: float | None = None
        self._announced: set[int] = set()
        self._losses: list[str] = []
        self._finished = ""
        self.has_given_up = False
        membership = Membership(NO_RANK, None, job_key, tls)
        self._acceptor = acceptor_of_members(self._loop, listener, membership, (JOIN_PURPOSE,), self._admit)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that are connected and belong to the job."""
        return tuple(self._attendance.workers())

    @property
    def is_deserted(self) -> bool:
        """True if a meeting has taken place and no worker is left."""
        return self._latest is not None and not self.is_visited

    @property
    def is_visited(self) -> bool:
        """True if a worker is connected, even one that has lost its place in the job."""
        return bool(len(self._attendance))

    @property
    def is_ending(self) -> bool:
        """True if a worker of the latest meeting has reported that its work is done: newcomers are dismissed."""
        return bool(self._finished)

    @property
    def losses(self) -> tuple[str, ...]:
        """The ends of workers that were lost since the latest meeting began, a sentence each."""
        return tuple(self._losses)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to serve."""
        return self._loop.fileno()

    def serve_ready(self, limit_s: float = 0.0) -> None:
        """Serve the ready sockets within a limit in seconds, and due work; a worker's mistake raises no error here."""
        with suppress(RingtuneError):  # no descriptor is left for one more connection; it waits in the kernel's queue
            self._loop.turn(min(limit_s, self.next_look_s()))
        self._settle()

    def next_look_s(self) -> float:
        """Return the seconds after which `serve_ready` is due if no socket becomes ready; infinity: never."""
        dues = [self._acceptor.next_look_s()]
        if self._attendance.broken:
            return 0.0
        now_s = time.monotonic()
        if self._forming is not None:
            dues.append(self._forming.since_s + self._patience.grace_s - now_s)
        elif self._attendance.waiting():
            overdue_s = self._overdue_at_s()
            dues.append(self._roster.next_look_s() if overdue_s is None else overdue_s - now_s)
            if self._short_since_s is not None:
                dues.append(self._short_since_s + self._patience.meeting_s - now_s)
        return max(0.0, min(dues))

    def announce(self, added: Sequence[str] = (), removed: Sequence[str] = ()) -> None:
        """Announce a change of the job to all workers of the running world: `RendezvousClient.has_update` becomes true.

        Args:
            added: Descriptions of workers that wait.
            removed: Descriptions of workers that are to go.
        """
        members = [one for one in self._attendance.members_of(self._latest) if not one.is_waiting]
        self._attendance.tell(members, {"type": "update", "added": list(added), "removed": list(removed)})

    def dismiss(self, worker: Worker, text: str) -> None:
        """Take a worker out of the job: its next, or present, wait for a meeting ends with `DismissedError`.

        Args:
            worker: The worker; one that has ended is ignored.
            text: Reason, a sentence.
        """
        attendant = self._attendance.find(worker.arrival)
        if attendant is not None and attendant.verdict is None:
            self._condemn(attendant, DismissedError(text))

    def close(self) -> None:
        """Close every socket; idempotent. Workers that wait get an error; a running world goes on."""
        self._acceptor.close()
        for attendant in self._attendance:
            self._attendance.remove(attendant)
            attendant.channel.close()
        self._loop.close()

    # --- coming and going

    def _admit(self, caller: Caller) -> None:
        try:
            attendant = self._attendance.read(caller.channel, caller.join)
            refusal = self._roster.refusal(attendant.worker, self._attendance.workers())
        except Exception:  # noqa: BLE001  (one worker's message, whatever it raises, is no reason to leave the others)
            caller.channel.close()
            return
        self._next_number = max(self._next_number, (attendant.worker.meeting or -1) + 1)  # of a server before this one
        if refusal is not None:
            attendant.condemn(RendezvousError(refusal))
        caller.channel.notice_silence()
        self._attendance.add(attendant)
        self._loop.on_readable(caller.channel, lambda: self._hear(attendant))

    def _hear(self, attendant: Attendant) -> None:
        """Obey a worker's message; one that raises an error ends that worker alone."""
        try:
            self._obey(attendant)
        except Exception as error:  # noqa: BLE001  (as for `_admit`)
            if self._attendance.find(attendant.arrival) is attendant:
                self._end(attendant, f"its message cannot be used: {shown(str(error))}", is_done=False)

    def _obey(self, attendant: Attendant) -> None:
        try:
            attendant.channel.pump()
            message = attendant.channel.next_message()
        except ChannelError as error:
            self._end(attendant, f"its connection ended: {error}", is_done=False)
            return
        if message is None:
            return
        self._note_words(attendant, message)
        if message["type"] == "next":
            attendant.ask(message.get("patience_s"))
            self._changed_s = time.monotonic()
        elif message["type"] == "listening":
            self._conclude(attendant, message)
        elif message["type"] == "done":
            self._end(attendant, "its work is done", is_done=True)
        elif message["type"] == "exited":
            self._end(attendant, f"it exited with code {shown(message.get('code'))}", is_done=False)

    def _note_words(self, attendant: Attendant, message: Message) -> None:
        """Take note of a worker's report of its training."""
        progress = Progress.from_message(message.get("progress"))
        if progress is not None:
            failure = str(message.get("failure", ""))[:MAX_FAILURE_CHARACTERS]
            attendant.worker = replace(attendant.worker, progress=progress, failure=failure)

    def _end_broken(self, arrival: int) -> None:
        """End a worker that takes no messages; its earlier messages count, such as that its work is done."""
        while (attendant := self._attendance.find(arrival)) is not None and attendant.channel.has_news():
            self._hear(attendant)
        if attendant is not None:
            self._end(attendant, "it takes no messages", is_done=False)

    def _end(self, attendant: Attendant, text: str, *, is_done: bool) -> None:
        """Take note that a worker's process has ended."""
        self._loop.forget(attendant.channel)
        attendant.channel.close()
        self._attendance.remove(attendant)
        worker = attendant.worker
        if attendant.verdict is None:
            self._lose(attendant, text, is_done=is_done)
        if self._latest is not None and worker.meeting == self._latest:
            lost = {"type": "lost", "number": self._latest, "text": f"rank {worker.rank} ({worker}) ended during init"}
            self._attendance.tell(self._attendance.members_of(self._latest), lost)

    def _condemn(self, attendant: Attendant, verdict: RingtuneError) -> None:
        """Take a worker out of the job that is still connected."""
        attendant.condemn(verdict)
        attendant.worker = replace(attendant.worker, is_expelled=not isinstance(verdict, DismissedError))
        self._lose(attendant, str(verdict), is_done=isinstance(verdict, DismissedError))

    def _lose(self, attendant: Attendant, text: str, *, is_done: bool) -> None:
        """Do without a worker: a meeting that forms with it begins anew, and others that need it are notified."""
        worker = attendant.worker
        self._changed_s = time.monotonic()
        is_member = self._latest is not None and worker.meeting == self._latest
        if self._forming is not None and worker.arrival in self._forming.arrivals:
            self._fall_through(self._forming)
        if is_member and not is_done:
            self._losses.append(f"rank {worker.rank} ({worker}): {text}")
        elif is_member and attendant.verdict is None:
            self._finished = self._finished or f"the work of rank {worker.rank} ({worker}) is done"
        self._roster.ended(worker, text, is_done=is_done)

    # --- meetings

    def _settle(self) -> None:
        """Act on the changes since the last call: ends, meetings, losses."""
        while self._attendance.broken:
            self._end_broken(self._attendance.broken.pop())
        if self._finished:
            for attendant in self._attendance.waiting():
                if attendant.worker.rank is None:
                    self._condemn(attendant, DismissedError(f"the job has ended: {self._finished}"))
        self._attendance.tell_verdicts()
        self._expel_overdue()
        self._announce_newcomers()
        if self._overdue_at_s() is not None:
            self._short_since_s = None
        elif self._forming is None:
            self._consider()
        self._attendance.tell_verdicts()

    def _overdue_at_s(self) -> float | None:
        """Return the time at which the members that others wait for are overdue; None if all of them wait."""
        members = self._attendance.members_of(self._latest)
        waiting = [member for member in members if member.waits_since_s is not None]
        if len(waiting) == len(members):
            return None
        grace_s = self._patience.grace_s
        return min(((one.waits_since_s or 0.0) + min(grace_s, one.patience_s) for one in waiting), default=math.inf)

    def _expel_overdue(self) -> None:
        """Go on without workers that hold up the others for too long."""
        now_s, grace_s = time.monotonic(), self._patience.grace_s
        if self._forming is not None and now_s >= self._forming.since_s + grace_s:
            first = self._attendance.find(self._forming.arrivals[0])
            if first is not None:
                self._condemn(first, RendezvousError(f"expelled: as rank 0 it did not listen within {grace_s:.0f} s"))
        overdue_at_s = self._overdue_at_s()
        if overdue_at_s is None or now_s < overdue_at_s:
            return
        members = self._attendance.members_of(self._latest)
        limit_s = overdue_at_s - min(one.waits_since_s for one in members if one.waits_since_s is not None)
        for member in members:
            if not member.is_waiting:
                text = f"expelled: it did not ask for the next meeting within {limit_s:.0f} s after the first"
                self._condemn(member, RendezvousError(text))

    def _announce_newcomers(self) -> None:
        """Announce newcomers, for which there is room, to a running world, once."""
        members = self._attendance.members_of(self._latest)
        waiting = {one.arrival: one.worker for one in self._attendance.newcomers(self._latest)}
        fresh = [str(worker) for arrival, worker in waiting.items() if arrival not in self._announced]
        is_running = not all(member.is_waiting for member in members)
        if not fresh or not is_running or self._forming is not None:
            return
        if self._roster.wants_update([one.worker for one in members], list(waiting.values())):
            self._announced |= waiting.keys()
            self.announce(added=fresh)

    def _consider(self) -> None:
        """Begin a meeting, if it is time for one."""
        waiting = self._attendance.waiting()
        if not waiting:
            self._short_since_s = None
            return
        now_s = time.monotonic()
        chosen = self._roster.meeting(self._gathering(waiting, now_s))
        if chosen:
            self._short_since_s = None
            self._form([worker.arrival for worker in chosen])
            return
        self._short_since_s = now_s if self._short_since_s is None else self._short_since_s
        is_hopeless = self._finished and math.isinf(self._roster.next_look_s())
        if is_hopeless or now_s >= self._short_since_s + self._patience.meeting_s:
            self._give_up(waiting)

    def _gathering(self, waiting: Sequence[Attendant], now_s: float) -> Gathering:
        asked_s = min(one.waits_since_s or now_s for one in waiting)
        present = tuple(one.worker for one in waiting)
        return Gathering(present, now_s - asked_s, now_s - max(self._changed_s, asked_s))

    def _give_up(self, waiting: Sequence[Attendant]) -> None:
        """Report to all waiting workers that there will be no meeting, and which are missing."""
        missing = self._roster.describe_missing([one.worker for one in waiting])
        refused = counted(self._acceptor.refused, "connection")
        hint = f"; {refused} without proof of the job key" if self._acceptor.refused else ""
        text = (
            f"there were not enough workers within {self._patience.meeting_s:.0f} s: {missing}{hint}; start the "
            "missing ones, check that they reach the rendezvous server, or raise its time limit"
        )
        if self._finished:
            text = f"there can be no further meeting, for {self._finished}: {missing}"
        for attendant in waiting:
            self._condemn(attendant, RendezvousError(text))
        self._short_since_s = None
        self.has_given_up = True

    def _form(self, arrivals: Sequence[int]) -> None:
        """Give workers their ranks; rank 0 is to listen."""
        number, self._next_number = self._next_number, self._next_number + 1
        ranks = [one for arrival in arrivals if (one := self._attendance.find(arrival)) is not None]
        self._forming = Forming(number, tuple(one.arrival for one in ranks), time.monotonic())
        place = {"type": "place", "number": number, "size": len(ranks), "nonce": new_nonce()}
        for rank, attendant in enumerate(ranks):
            sites = list(dict.fromkeys(one.site.to_text() for one in ranks)) if rank == 0 else []  # its own first
            self._attendance.tell([attendant], {**place, "rank": rank, "sites": sites})
        if len(ranks) == 1:
            self._begin(self._forming, "")

    def _conclude(self, attendant: Attendant, message: Message) -> None:
        """Send the others the address of rank 0."""
        forming = self._forming
        is_answer = forming is not None and attendant.arrival == forming.arrivals[0]
        if forming is not None and is_answer and message.get("number") == forming.number:
            self._begin(forming, str(Address.parse(str(message.get("address")))))

    def _begin(self, forming: Forming, address: str) -> None:
        """Let the workers of a meeting go and meet."""
        ranks = [one for arrival in forming.arrivals if (one := self._attendance.find(arrival)) is not None]
        self._forming, self._latest = None, forming.number
        self._announced.clear()
        self._losses.clear()
        for rank, attendant in enumerate(ranks):
            worker = attendant.worker
            first = forming.number if worker.first_meeting is None else worker.first_meeting
            attendant.worker = replace(worker, first_meeting=first, meeting=forming.number, rank=rank)
            attendant.waits_since_s = None
        self._roster.met(forming.number, [one.worker for one in ranks])
        self._attendance.tell(ranks, {"type": "address", "number": forming.number, "address": address})

    def _fall_through(self, forming: Forming) -> None:
        """Have the workers of a meeting wait again, for one of them has ended."""
        self._forming = None
        others = [one for one in self._attendance.waiting() if one.arrival in forming.arrivals]
        self._attendance.tell(others, {"type": "again", "number": forming.number})
