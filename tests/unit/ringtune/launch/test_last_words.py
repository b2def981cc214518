# SPDX-License-Identifier: Apache-2.0
"""The error that a rank wrote last, whatever surrounds it."""

import pytest

from ringtune.launch.last_words import TAIL_BYTES, LastWords
from ringtune.launch.rank_streams import STDERR, STDOUT

FRAMES = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    raise x\n'
ERROR = "ValueError: bad sample 17 in shard 3"


def said(text: str, *, is_joined: bool = False, pieces: int = 7) -> str:
    """Return the error of a rank that has written a text, in pieces of a few bytes."""
    words = LastWords(is_joined=is_joined)
    data = text.encode()
    for start in range(0, len(data), pieces):
        words.take(3, STDOUT if is_joined else STDERR, data[start : start + pieces])
        words.take(4, STDERR, b"KeyError: another rank's\n")
    return words.error_of(3)


@pytest.mark.parametrize("is_joined", [True, False])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"step 3\n{FRAMES}{ERROR}\n", ERROR),
        (f"{FRAMES}KeyError: 'a'\n\nDuring handling, another exception occurred:\n\n{FRAMES}{ERROR}\n", ERROR),
        (f"{FRAMES}{ERROR}\nwarning: the teardown\nsays more\n", ERROR),
        (f"{FRAMES}{ERROR}\nException ignored in: <function f>\n{FRAMES}AttributeError: none\n", ERROR),
        (f"{FRAMES}my.own.Trouble\n", "my.own.Trouble"),
        (f"{FRAMES}{ERROR}\n  and its second line\n", ERROR),
        (f"{FRAMES}{ERROR}\r\n", ERROR),
        (f"\x1b[1;35mTraceback (most recent call last):\x1b[0m\n  frame\n\x1b[1;35m{ERROR}\x1b[0m\n", ERROR),
        (f"Traceback (most recent call last):\n{'  frame' * TAIL_BYTES}\n{ERROR}\nbye\n", ERROR),
        (f"{FRAMES}ValueError: a\x1b]0;b\x07\n", "ValueError: a\\x1b]0;b\\x07"),
        ("", ""),
    ],
)
def test_the_error_of_the_last_traceback_is_found(text: str, error: str, is_joined: bool) -> None:
    """Neither its cause nor the messages of a teardown after it are taken."""
    assert error == said(text, is_joined=is_joined)


def test_without_a_traceback_the_last_message_is_taken_for_the_error() -> None:
    """A rank may end by `sys.exit("no data")`; a stream that has results as well is no evidence."""
    assert "no data at /x" == said("starting\nno data at /x\n")
    assert "" == said("step 3, loss 0.1\n", is_joined=True)


def test_a_long_error_is_shortened_and_little_is_kept() -> None:
    """A rank may write without end."""
    words = LastWords(is_joined=False)
    words.take(0, STDERR, b"x" * (1 << 22))
    words.take(0, STDERR, f"\n{FRAMES}ValueError: {'a' * 1000}\n".encode())

    assert 300 == len(words.error_of(0))
