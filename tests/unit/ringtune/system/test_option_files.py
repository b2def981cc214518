# SPDX-License-Identifier: Apache-2.0
"""Files of options are measured before anything is built of them."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.system.option_files import read_option_file


def read(folder: Path, text: str) -> object:
    """Return the values of a file with a text."""
    file = folder / "options.yaml"
    file.write_text(text, encoding="utf-8")
    return read_option_file(file, "--knobs")[1]


def aliases_of_aliases(levels: int) -> str:
    """Return a text of a few bytes per level, which stands for 10 values to the power of the levels."""
    lists = [f"&a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return f"[&a0 [{','.join('x' * 10)}], {', '.join(lists)}]"


def test_aliases_of_a_small_part_are_taken(tmp_path: Path) -> None:
    """A place that several knobs share is written once."""
    assert {"a": {"after": "--x"}, "b": {"after": "--x"}} == read(tmp_path, "{a: &file {after: --x}, b: *file}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (aliases_of_aliases(9), "with its aliases written out, the file has over 10000 values"),
        (f"a: {{b: {aliases_of_aliases(9)}}}", "with its aliases written out"),
        ("a: &a [*a]", "with its aliases written out"),
        ("a: &a [1]\nb: &a [*a]", "line 2: with its aliases written out"),
        ("<<: &a {b: 1, <<: *a}", "with its aliases written out"),
        ("[" + "1," * 20_000 + "]", "over 10000 values"),
        ("[" * 20_000 + "]" * 20_000, "over 16 levels deep"),
        ("{" * 20_000, "over 16 levels deep"),
        ("- " * 20_000, "over 16 levels deep"),
        ("? " * 20_000, "over 16 levels deep"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(300)), "line 17: lists and mappings are over 16 levels deep"),
        (f"a: 0x{'f' * 4000}", "a value has 4002 characters"),
        ("a: *nothing", "is no YAML (found undefined alias"),
        ("a: \x1b[0m", "is no YAML"),
        ("x" * (1 << 21), "has more than 1048576 characters"),
    ],
)
def test_a_file_that_stands_for_far_more_than_its_bytes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """The message has the line and the limit, and is one short printable line."""
    with pytest.raises(ConfigError, match=r"--knobs .*options\.yaml") as error:
        read(tmp_path, text)

    assert said in str(error.value)
    assert len(str(error.value)) < 1000
    assert str(error.value).isprintable()
