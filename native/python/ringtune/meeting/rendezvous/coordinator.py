# SPDX-License-Identifier: Apache-2.0
"""Rank 0's side of the meeting: admit every rank, agree on the settings, plan the connections, and let all go.

A stranger (another user, a wrong key, garbage) is dropped and does not disturb the meeting. A rank of the job that
cannot start, contradicts rank 0, or ends, stops the job: every rank gets the reason at once, latecomers too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError
from ringtune.system.counts import counted
from ringtune.system.event_loop import EventLoop

from .address import LOOPBACK, Address, bound_address, listen
from .admission import Caller, acceptor_of_members
from .arrival import Arrival
from .channel import Channel, ChannelError, Deadline, Message, could_tell
from .conflicts import describe_failure, failure_of, find_conflict, join_message, missing_ranks
from .host_group import NoSharedMemory
from .interfaces import link_bits_per_s
from .layout import Layout, assign_hosts
from .place import Agreement, Offer, Place, host_identity
from .plan import MeetingPlan, mesh_addresses, mesh_message
from .proof import MEETING_PURPOSE
from .waiting import TURN_S, Waiting

NAMING_LIMIT_S = 60.0  # for rank 0's own name to become known; Kubernetes' name service forgets "unknown" after 30 s
ABORT_LINGER_S = 5.0  # time for which latecomers still hear that the meeting failed


class Coordinator:
    """The meeting as rank 0 sees it: `agree()`, then `conclude()`, then `close()`. Not thread-safe."""

    def __init__(self, place: Place, offer: Offer, limit_s: float, create_segment: Callable[[int], int]) -> None:
        self._place = place
        self._offer = offer
        self._deadline = Deadline.after(limit_s)
        self._create_segment = create_segment
        self._joins: dict[int, Message] = {0: join_message(place, offer, host_identity())}
        self._members: dict[int, Channel] = {}
        self._rejected: list[Channel] = []  # of the job, but not of this world; they have been told
        self._reports: dict[int, Message] = {}
        self._seats: dict[int, Message] = {}
        self._verdict: RingtuneError | None = offer.failure
        self._is_known = False  # whether somebody else tells the verdict to all
        self._arrival: Arrival | None = None
        self._loop = EventLoop()
        self._waiting = Waiting(self._loop, self._deadline, self._check)
        listener = place.listener or listen(place.require_address(), Deadline.after(min(limit_s, NAMING_LIMIT_S)))
        address = bound_address(listener)
        self._interface = LOOPBACK if address.scheme == "unix" else address.host
        self._acceptor = acceptor_of_members(self._loop, listener, place.membership, (MEETING_PURPOSE,), self._admit)
        if place.watch is not None:
            self._loop.on_readable(place.watch, self._look)

    def agree(self) -> Agreement:
        """Wait for every rank and lead all into the world.

        Raises:
            ConfigError: If ranks disagree, or one of them cannot start.
            CollectiveTimeout: If a rank is missing at the deadline.
            PeerLostError: If a rank ended meanwhile.
        """
        try:
            self._waiting.until(self._is_complete, self._describe_missing)
            self._acceptor.close()  # strangers who still knock cost no more time
            arrival, notes = self._seat_all()
            self._connect_all(arrival)
            return arrival.agreement(self._host_facts(), notes)
        except RingtuneError as error:
            self._abort(error)
            raise

    def conclude(self, failure: RingtuneError | None) -> None:
        """Wait until every rank has started its engine, and let all go.

        Args:
            failure: Reason why rank 0 could not start its engine; the others raise it as well.

        Raises:
            RingtuneError: The first failure of any rank.
        """
        try:
            if failure is not None:
                raise failure
            self._waiting.until(self._are_all_ready, lambda: self._describe_silent("start its engine"))
        except RingtuneError as error:
            self._abort(error)
            raise
        self._send_all({"type": "go"})

    def close(self) -> None:
        """Close every socket of the meeting; idempotent."""
        if self._arrival is not None:
            self._arrival.close()
            self._arrival = None
        self._acceptor.close()
        for channel in (*self._rejected, *self._members.values()):
            channel.close()
        self._members.clear()
        self._loop.close()

    # --- who is there

    def _check(self) -> None:
        if self._verdict is not None:
            raise self._verdict

    def _look(self) -> None:
        """Take note that a rank has ended which may not have come here."""
        watch = self._place.watch
        if watch is None or not watch.has_news():
            return
        try:
            watch.check()
        except PeerLostError as error:
            self._verdict = self._verdict or error
            self._is_known = True

    def _is_complete(self) -> bool:
        return len(self._members) == self._place.world_size - 1

    def _admit(self, caller: Caller) -> None:
        """Take a proved rank in, or find why the meeting must end; tell it if that is known already."""
        rank = caller.rank
        if rank >= self._place.world_size:
            self._rejected.append(caller.channel)
            conflict: RingtuneError | None = ConfigError(
                f"a process joined as rank {rank} but the world size is {self._place.world_size}"
            )
        elif rank in self._joins:
            self._rejected.append(caller.channel)
            pids = [self._joins[rank].get("pid"), caller.join.get("pid")]
            conflict = ConfigError(f"two processes joined as rank {rank} (pids {pids[0]} and {pids[1]})")
        else:
            self._joins[rank] = caller.join
            self._members[rank] = caller.channel
            self._loop.on_readable(caller.channel, lambda: self._hear(rank))
            conflict = find_conflict(self._place, self._offer, rank, caller.join)
        self._verdict = self._verdict or conflict
        if self._verdict is not None:
            could_tell(caller.channel, {"type": "abort", **describe_failure(self._verdict)})

    def _hear(self, rank: int) -> None:
        """Take in the messages of a rank of the world; its end, or its failure, ends the meeting."""
        channel = self._members[rank]
        try:
            channel.pump()
            message = channel.next_message()
        except ChannelError as error:
            self._verdict = self._verdict or PeerLostError(f"rank {rank} ended during init: {error}")
            self._loop.forget(channel)
            return
        if message is None:
            return
        if message["type"] == "failed":
            self._verdict = self._verdict or failure_of(rank, message)
        self._reports[rank] = message

    # --- who is where

    def _seat_all(self) -> tuple[Arrival, tuple[str, ...]]:
        """Plan, and plan again without shared memory for the ranks that cannot have it.

        Returns:
            Rank 0's own arrival, seated, and notes for the user.
        """
        identities = [str(self._joins[rank]["host"]) for rank in range(self._place.world_size)]
        separated: set[int] = set()
        notes: tuple[str, ...] = ()
        for round_number in range(2):
            hosts = assign_hosts(identities, self._offer.transport, separated)
            if self._offer.transport == "shm" and max(hosts) > 0:
                raise ConfigError(
                    f"RINGTUNE_TRANSPORT=shm is not possible: the ranks run on {max(hosts) + 1} hosts (ranks' hosts: "
                    f"{list(hosts)}); use auto, tcp or mpi"
                )
            arrival, lacking = self._seat_once(round_number, hosts)
            if not lacking:
                return arrival, notes
            ranks = [rank for rank, host in enumerate(hosts) if host in lacking]
            text = next(iter(lacking.values()))
            if self._offer.transport != "auto" or len(lacking) == len(ranks):  # alone already
                raise ConfigError(f"ranks {ranks} have no shared memory: {text}")
            separated |= set(ranks)
            notes += (f"ranks {ranks} use TCP among themselves, which is slower than shared memory: {text}",)
        raise ConfigError(notes[-1])

    def _seat_once(self, round_number: int, hosts: tuple[int, ...]) -> tuple[Arrival, dict[int, str]]:
        """Send a plan and wait until every rank has its seat, or its host has said that there is no memory for it.

        Returns:
            Rank 0's arrival, and by host why it has no shared memory.
        """
        self._reports.clear()
        groups = [Address.fresh_unix() for _ in range(max(hosts) + 1)]
        plan = self._plan(0, round_number, hosts, groups)
        if self._arrival is not None:
            self._arrival.close()
        self._arrival = arrival = Arrival(plan, self._place.membership, self._interface, self._waiting)
        for rank in self._members:
            self._send(rank, self._plan(rank, round_number, hosts, groups).to_message())
        lacking: dict[int, str] = {}
        try:
            arrival.sit(self._create_segment)
        except NoSharedMemory as error:
            lacking[0] = str(error)

        def have_all_answered() -> bool:
            answers = {rank: self._answer(rank, round_number) for rank in self._members}
            for rank, answer in answers.items():
                if answer is not None and answer["type"] == "no_memory":
                    lacking[hosts[rank]] = str(answer.get("text"))
            return all(answer is not None or hosts[rank] in lacking for rank, answer in answers.items())

        self._waiting.until(have_all_answered, lambda: self._describe_silent("take its seat"))
        return arrival, lacking

    def _answer(self, rank: int, round_number: int) -> Message | None:
        report = self._reports.get(rank)
        return report if report is not None and report.get("round") == round_number else None

    def _plan(self, rank: int, round_number: int, hosts: tuple[int, ...], groups: list[Address]) -> MeetingPlan:
        return MeetingPlan(
            round=round_number,
            given=self._offer.given,
            layout=Layout(rank, hosts),
            pids=tuple(int(self._joins[other]["pid"]) for other in range(self._place.world_size)),
            group=groups[hosts[rank]],
            data_connections=0 if self._offer.transport == "mpi" else 1 + self._offer.lanes_of(Layout(rank, hosts)),
            interfaces=self._offer.interfaces,
        )

    def _connect_all(self, arrival: Arrival) -> None:
        texts = [self._reports[rank].get("addresses") for rank in sorted(self._members)]
        message = mesh_message([arrival.addresses, *mesh_addresses({"type": "seat", "addresses": texts})])
        self._seats, self._reports = self._reports, {}
        self._send_all(message)
        arrival.connect(mesh_addresses(message))

    def _host_facts(self) -> tuple[Mapping[str, Any], ...]:
        """Return every machine's facts, reported by its lowest rank."""
        facts: dict[str, Mapping[str, Any]] = {}
        for rank in range(self._place.world_size):
            speed = link_bits_per_s(self._interface) if rank == 0 else self._seats[rank].get("link_bits_per_s")
            join = self._joins[rank]
            facts.setdefault(str(join["host"]), {**join["facts"], "link_bits_per_s": speed})
        return tuple(facts.values())

    # --- talking to all

    def _are_all_ready(self) -> bool:
        return all(self._reports.get(rank, {}).get("type") == "ready" for rank in self._members)

    def _send_all(self, message: Message) -> None:
        lost = [rank for rank, channel in self._members.items() if not could_tell(channel, message)]
        if lost:
            raise PeerLostError(f"rank {lost[0]} ended during init")

    def _send(self, rank: int, message: Message) -> None:
        try:
            self._members[rank].send(message)
        except ChannelError as error:
            raise PeerLostError(f"rank {rank} ended during init: {error}") from error

    def _abort(self, verdict: RingtuneError) -> None:
        """Send every rank the reason; wait a little for ranks that have not come yet, so that they get it as well."""
        message = {"type": "abort", **describe_failure(verdict)}
        for channel in self._members.values():
            could_tell(channel, message)
        self._verdict = verdict
        if isinstance(verdict, CollectiveTimeout) or self._is_known:
            return
        linger = Deadline.after(ABORT_LINGER_S)
        while not self._is_complete() and not linger.has_passed():
            self._loop.turn(min(linger.remaining_s(), TURN_S))

    def _describe_missing(self) -> str:
        missing = missing_ranks(self._place.world_size, self._members)
        reason = f", the last one: {self._acceptor.last_refusal}" if self._place.tls.is_on else " for a wrong job key"
        refused = (
            f" ({counted(self._acceptor.refused, 'connection')} refused{reason})" if self._acceptor.refused else ""
        )
        return (
            f"ranks {missing} of {self._place.world_size} did not join within {self._deadline.limit_s:.0f} s{refused}; "
            f"check their logs and that their hosts reach {self._place.address}, or raise RINGTUNE_TIMEOUT_S"
        )

    def _describe_silent(self, what: str) -> str:
        silent = [rank for rank in sorted(self._members) if rank not in self._reports]
        return f"ranks {silent} did not {what} within {self._deadline.limit_s:.0f} s; check their logs"
