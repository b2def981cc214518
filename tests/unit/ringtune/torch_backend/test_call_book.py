# SPDX-License-Identifier: Apache-2.0
"""The book of a group's calls, Python's and the compiled form's."""

import threading
from typing import Any

import pytest
import torch

from ringtune.graph_operations.torch_group import torch_library
from ringtune.torch_backend.call_book import NAMES, CallBook
from tests.integration.torch_backend.forms import FORMS


@pytest.fixture(params=FORMS)
def book(request: pytest.FixtureRequest) -> Any:
    """Return an empty book of either form."""
    return CallBook() if request.param == "python" else torch_library(torch).find().CallBook()


def test_equal_calls_take_names_in_turn(book: Any) -> None:
    """Names of a text are of it, of the last difference, and of a place; they begin again after the last one."""
    with book:
        names = []
        for _ in range(NAMES + 1):
            names.append(book.next_name("barrier"))
            book.end(book.begin("barrier"))

    assert [*(f"barrier #0.{slot}" for slot in range(NAMES)), "barrier #0.0"] == names


def test_a_name_has_a_holder_until_its_call_ends(book: Any) -> None:
    """The call that had the next name last is named while it is under way."""
    with book:
        numbers = [book.begin("barrier") for _ in range(NAMES)]
        before = book.holder("barrier")
        book.end(numbers[0])

        assert numbers[0] == before
        assert 0 == book.holder("barrier")


def test_open_calls_are_told_from_the_oldest(book: Any) -> None:
    """Calls that have not ended are listed by number, up to a limit."""
    with book:
        for text in ("barrier", "broadcast", "barrier"):
            book.begin(text)
        book.end(1)

        assert {2: "broadcast"} == book.open(1)
        assert {2: "broadcast", 3: "barrier"} == book.open(9)
        assert 3 == book.number


def test_names_after_a_difference_are_new(book: Any) -> None:
    """Names that may be in flight for ever are not used again, and hold up no call."""
    with book:
        for _ in range(NAMES):
            book.begin("barrier")
        book.differ(5)

        assert "barrier #5.0" == book.next_name("barrier")
        assert 0 == book.holder("barrier")


def test_threads_wait_for_each_other(book: Any) -> None:
    """A thread that enters the book waits for the one inside."""
    order = []

    def enter() -> None:
        with book:
            order.append("second")

    with book:
        thread = threading.Thread(target=enter)
        thread.start()
        order.append("first")
    thread.join()

    assert ["first", "second"] == order


def test_a_closed_book_says_so(book: Any) -> None:
    """A group that was left is known as such."""
    before = book.is_closed

    with book:
        book.close()

    assert (False, True) == (before, book.is_closed)
