# SPDX-License-Identifier: Apache-2.0
"""Every public name of Horovod's is here, or the documentation and the error say what to use in its place."""

import ast
from pathlib import Path

import pytest

import ringtune.torch
from ringtune.horovod_gaps import GAPS, gap_error
from tests.unit.ringtune.horovod_public_names import NAMES

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGES = REPOSITORY / "native/python/ringtune"
PAGE = REPOSITORY / "docs/reference/horovod_names.md"


def names_of(front_end: str) -> set[str]:
    """Return a front end's exports and its modules; without an import, for TensorFlow may not be here."""
    folder = PACKAGES / front_end
    exports = [
        ast.literal_eval(statement.value)
        for statement in ast.parse((folder / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    ]
    return {*exports[0], *(module.stem for module in folder.glob("*.py"))}


@pytest.mark.parametrize("front_end", NAMES)
def test_every_name_is_here_or_explained(front_end: str) -> None:
    """A name of Horovod's is either exported or explained, and never both."""
    names, here, gaps = set(NAMES[front_end]), names_of(front_end), set(GAPS[front_end])

    assert set() == names - here - gaps
    assert set() == here & gaps
    assert set() == gaps - names


@pytest.mark.parametrize("front_end", NAMES)
def test_the_page_lists_every_gap_in_the_words_of_the_error(front_end: str) -> None:
    """One row per name, in order, under the front end's heading, and no other row."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"## `ringtune.{front_end}`\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]

    assert [f"| `{name}` | {text} |" for name, text in sorted(GAPS[front_end].items())] == rows


def test_a_missing_name_says_what_to_use() -> None:
    """The attribute's error explains; a name that Horovod has not either gets Python's own words."""
    with pytest.raises(AttributeError, match="'mpi_ops', which Horovod has: its functions are names of the package"):
        ringtune.torch.mpi_ops  # noqa: B018  (the access is what is tested)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        ringtune.torch.nonsense  # noqa: B018
    assert not hasattr(ringtune.torch, "mpi_ops")


@pytest.mark.parametrize("front_end", NAMES)
def test_sentences_end_up_in_one_line(front_end: str) -> None:
    """A row of the table and an error are one line each."""
    for name in GAPS[front_end]:
        assert 1 == len(str(gap_error(front_end, name)).splitlines())
