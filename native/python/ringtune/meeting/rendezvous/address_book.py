# SPDX-License-Identifier: Apache-2.0
"""A launcher's book of one entry: rank 0 posts where it listens, the others ask; all prove the job key first.

It is for jobs on several hosts, where the launcher can tell no address in advance: which interface leads to rank 0,
and which port is free there, only rank 0 knows. A job that initialises again has an entry for each time.
"""

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError
from ringtune.system.event_loop import EventLoop

from .address import Address, bound_address, listen
from .admission import Caller, acceptor_of_members
from .channel import Channel, ChannelError, Deadline, Message
from .connector import Destination, open_channel
from .proof import NO_RANK, Membership
from .tls import CLEAR, Tls

PURPOSE = "book"


class AddressBook:
    """The launcher's side; served by the launcher's own loop, in one thread, as long as the job lives."""

    def __init__(self, job_key: bytes, host: str, tls: Tls = CLEAR) -> None:
        """Listen on one interface of this host, on a port that the kernel chooses.

        Args:
            job_key: Secret of the job.
            host: This host's address that the other hosts reach; see `interfaces.route_address`.
            tls: Protection of the connections to it.

        Raises:
            ConfigError: If that is not possible.
        """
        listener = listen(Address("tcp", host))
        bound = bound_address(listener)
        self.address = str(Address("book", bound.host, bound.port))
        self._loop = EventLoop()
        self._entries: dict[int, str] = {}
        self._readers: dict[int, list[Channel]] = {}  # who asked before the entry was there, by generation
        membership = Membership(NO_RANK, None, job_key, tls)
        self._acceptor = acceptor_of_members(self._loop, listener, membership, (PURPOSE,), self._admit)

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to serve."""
        return self._loop.fileno()

    def serve_ready(self) -> None:
        """Serve the ready sockets without waiting; a peer's mistake raises no error here."""
        try:
            self._loop.turn(0.0)
        except RingtuneError:  # no descriptor is left for one more connection; it waits in the kernel's queue
            return

    def close(self) -> None:
        """Close every socket; idempotent."""
        self._acceptor.close()
        for readers in self._readers.values():
            for channel in readers:
                channel.close()
        self._readers.clear()
        self._loop.close()

    def _admit(self, caller: Caller) -> None:
        generation, join = caller.generation, caller.join
        if isinstance(join.get("post"), str):
            self._entries.setdefault(generation, join["post"])
            for reader in (caller.channel, *self._readers.pop(generation, [])):
                self._answer(reader, generation)
        elif generation in self._entries:
            self._answer(caller.channel, generation)
        else:
            self._readers.setdefault(generation, []).append(caller.channel)

    def _answer(self, channel: Channel, generation: int) -> None:
        try:
            channel.send({"type": "entry", "address": self._entries[generation]})
        except ChannelError:
            pass  # a rank that has ended needs no address
        finally:
            channel.close()


def post_address(book: Address, membership: Membership, address: Address, limit_s: float) -> None:
    """Write down where rank 0 listens.

    Args:
        book: Address of the launcher's book.
        membership: Membership of rank 0.
        address: Address that the others are given.
        limit_s: Time limit of the attempts, seconds.

    Raises:
        ConfigError: If the book holds another job key, or another entry is there already.
        CollectiveTimeout: If the launcher does not answer.
        PeerLostError: If it has ended.
    """
    entry = _consult(book, membership, {"post": str(address)}, limit_s)
    if entry != address:
        raise ConfigError(
            f"rank 0 listens on {address}, but the launcher's address book has {entry}: is it there twice?"
        )


def ask_address(book: Address, membership: Membership, limit_s: float) -> Address:
    """Return where rank 0 listens, once it has said so; arguments and errors as for `post_address`."""
    return _consult(book, membership, {}, limit_s)


def _consult(book: Address, membership: Membership, join: Message, limit_s: float) -> Address:
    deadline = Deadline.after(limit_s)
    at = Address("tcp", book.host, book.port)
    channel = open_channel(Destination(at, NO_RANK, PURPOSE), membership, join, deadline)
    try:
        return Address.parse(channel.receive(deadline)["address"])
    except TimeoutError as error:
        raise CollectiveTimeout(
            f"rank 0 did not say where it listens within {limit_s:.0f} s; check its log, or raise RINGTUNE_TIMEOUT_S"
        ) from error
    except ChannelError as error:
        raise PeerLostError(f"the launcher ended, or its address book at {book}, during init: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"the address book at {book} holds no address ({error!r})") from error
    finally:
        channel.close()
