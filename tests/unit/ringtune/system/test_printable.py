# SPDX-License-Identifier: Apache-2.0
"""Foreign text is shown without control characters, forged lines, or more than a person reads."""

import pytest

from ringtune.system.console import write_line
from ringtune.system.printable import printable, printable_lines, quoted, shown, shown_command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-1 ä 日本", "node-1 ä 日本"),
        ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
        ("a\nringtune: error: b\r\x85", "a\\nringtune: error: b\\r\\x85"),
        ("a\u2028b\u202ec\u200b", "a\\u2028b\\u202ec\\u200b"),
        ("a\tb\u00a0c", "a b c"),
        ("\udcff\x00", "\\udcff\\x00"),
    ],
)
def test_what_is_not_printable_is_its_escape(text: str, expected: str) -> None:
    """Spaces of other widths are spaces; the result is one printable line."""
    assert expected == printable(text)
    assert expected.isprintable()


def test_a_line_of_a_paragraph_does_not_pass_for_a_message() -> None:
    """Lines after the first are indented, unless they are already."""
    assert "a\n  ringtune: error: b\n  c\n\n  \\x1bd" == printable_lines("a\nringtune: error: b\n  c\n\n\x1bd")


def nested(levels: int) -> list[object]:
    """Return a list that stands for 10 values to the power of the levels."""
    value: list[object] = ["x"]
    for _ in range(levels):
        value = [value] * 10
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\x1bb", "a\\x1bb"),
        ("x" * 101, "x" * 97 + "..."),
        ("x" * 10_000_000, "x" * 97 + "..."),
        ("\x00" * 101, "\\x00" * 24 + "\\..."),
        (2.5, "2.5"),
        (True, "True"),
        (None, "None"),
        (10**4000, "an integer of 13288 bits"),
        (nested(30), "a list"),
        ({"a": nested(30)}, "a mapping"),
        (b"\x1b", "a bytes"),
    ],
)
def test_a_value_in_a_message_is_short(value: object, expected: str) -> None:
    """Only the kind is shown of a value that contains others, which may be without end."""
    assert expected == shown(value)


def test_text_has_quotation_marks() -> None:
    """A number has none."""
    assert ("'a\\x1b'", "2", "a list") == (quoted("a\x1b"), quoted(2), quoted([1]))


@pytest.mark.parametrize("folder", ["/", "/srv/", f"/{'a long name of a folder/' * 40}"])
def test_a_command_is_shown_without_the_folders_of_its_files(folder: str) -> None:
    """A reader looks for the script's name, however long the path to it."""
    words = [f"{folder}bin/python3", "-u", f"{folder}train.py", "--data=x", "a\x1bb", ""]

    assert "python3 -u .../train.py --data=x a\\x1bb" == shown_command(words)
    assert ("", 100) == (shown_command([]), len(shown_command(["x", "y" * 200])))


def test_lines_on_stderr_are_printable(capfd: pytest.CaptureFixture[str]) -> None:
    """Writers of a line need not check its characters."""
    write_line("ringtune: host a\x1b[2J\nringtune: error: forged")

    assert "ringtune: host a\\x1b[2J\n  ringtune: error: forged\n" == capfd.readouterr().err
