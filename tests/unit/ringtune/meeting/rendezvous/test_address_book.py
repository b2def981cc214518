# SPDX-License-Identifier: Apache-2.0
"""The launcher's address book, served by a thread as the launcher's loop would."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.address_book import AddressBook, ask_address, post_address
from ringtune.meeting.rendezvous.proof import Membership

KEY = b"k" * 32
RANK_0 = Address("tcp", "10.77.0.1", 4000)


def member(rank: int, generation: int = 0, key: bytes = KEY) -> Membership:
    """Return a rank of the job."""
    return Membership(rank, generation, key)


@pytest.fixture
def book() -> Iterator[Address]:
    """Serve a book as a launcher does: one selector waits for it and for other things."""
    is_over = threading.Event()
    with closing(AddressBook(KEY, "127.0.0.1")) as opened, selectors.DefaultSelector() as selector:
        selector.register(opened, selectors.EVENT_READ)

        def serve() -> None:
            while not is_over.is_set():
                if selector.select(0.05):
                    opened.serve_ready()

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address.parse(opened.address)
        is_over.set()
        thread.join()


def test_what_rank_0_posts_the_others_read(book: Address) -> None:
    """Before or after it was posted, and each generation its own."""
    answers: list[Address] = []
    early = threading.Thread(target=lambda: answers.append(ask_address(book, member(1), 10)))
    early.start()

    post_address(book, member(0), RANK_0, 10)
    early.join()
    late = ask_address(book, member(2), 10)

    assert [RANK_0, RANK_0] == [*answers, late]
    other = Address("tcp", "10.77.0.1", 4001)
    post_address(book, member(0, generation=1), other, 10)
    assert other == ask_address(book, member(1, generation=1), 10)


def test_a_reader_without_an_entry_gives_up_at_the_limit(book: Address) -> None:
    """The error names the entry that did not come."""
    with pytest.raises(CollectiveTimeout, match="rank 0 did not say where it listens"):
        ask_address(book, member(1), 0.2)


def test_two_rank_0s_are_noticed(book: Address) -> None:
    """The second one would otherwise wait for ranks that meet the first."""
    post_address(book, member(0), RANK_0, 10)

    with pytest.raises(ConfigError, match="is it there twice"):
        post_address(book, member(0), Address("tcp", "10.77.0.1", 4002), 10)


def test_strangers_neither_read_nor_write(book: Address) -> None:
    """Another key is an error, garbage is dropped, and the book stays open."""
    with pytest.raises(ConfigError, match="different job keys"):
        ask_address(book, member(1, key=b"x" * 32), 5)
    with socket.create_connection((book.host, book.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")

    post_address(book, member(0), RANK_0, 10)
    assert RANK_0 == ask_address(book, member(1), 10)


def test_a_launcher_that_ended_is_a_lost_peer() -> None:
    """A rank that waits for the entry hears at once that the book is gone."""
    opened = AddressBook(KEY, "127.0.0.1")
    book, answers = Address.parse(opened.address), []

    def ask() -> None:
        with pytest.raises(PeerLostError, match="launcher"):
            ask_address(book, member(1), 10)
        answers.append("lost")

    thread = threading.Thread(target=ask)
    thread.start()
    while not opened._readers:
        opened._loop.turn(0.1)
    opened.close()
    thread.join()

    assert ["lost"] == answers


def test_a_book_without_a_launcher_is_waited_for_until_the_limit() -> None:
    """A wrong address ends with the address in the text."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        gone = bound_address(listener)

    with pytest.raises(CollectiveTimeout, match=f"the launcher's address book.*{gone.port}"):
        ask_address(Address("book", gone.host, gone.port), member(1), 0.2)
