# SPDX-License-Identifier: Apache-2.0
"""The choice between the compiled form of process groups and Python's."""

import sys
from pathlib import Path

import pytest
import torch

from ringtune.graph_operations import graph_library
from ringtune.graph_operations.torch_group import main, torch_library
from ringtune.system.console import Console
from ringtune.torch_backend.compiled import form, tell_once
from ringtune.torch_backend.group import RingtuneGroup
from tests.integration.torch_backend.forms import needs_compiled

look_again = form.__wrapped__


@needs_compiled
def test_a_fitting_library_serves() -> None:
    """Groups of a library that was built for this torch are its class, below Python's."""
    found = look_again()

    assert issubclass(found.group_class, RingtuneGroup)
    assert found.group_class is not RingtuneGroup
    assert torch_library(torch).file_name in found.note


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, "they were not compiled"),
        ("torch-1.0-cpython-30.so", "were built for torch-1.0-cpython-30, not for torch-"),
        (torch_library(torch).file_name, "cannot be loaded"),
    ],
)
def test_python_serves_where_no_library_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None, words: str
) -> None:
    """Without a library, with one for another torch and with a broken one, groups are Python's, and a note says why."""
    if name is not None:
        (tmp_path / name).write_text("no library")
    monkeypatch.setattr(graph_library, "library_folders", lambda: iter([tmp_path]))

    found = look_again()

    assert found.group_class is RingtuneGroup
    assert words in found.note
    assert "python -m ringtune.torch_backend" in found.note


def test_the_note_is_told_once_to_those_who_look(capfd: pytest.CaptureFixture[str]) -> None:
    """The form is a line at level debug, and none at the usual level."""
    for level in ("warning", "debug", "debug"):
        tell_once(Console(3, level), "a note of this test")

    assert ["ringtune: debug: rank 3: a note of this test"] == capfd.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("compiler", "words"),
    [("no-such-compiler", "install g++, or name a compiler with --compiler"), ("false", "could not be compiled")],
)
def test_a_build_that_is_not_possible_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiler: str, words: str
) -> None:
    """Without a compiler, or with one that fails, the exit status is 2 and the text has the remedy."""
    monkeypatch.setattr(sys, "argv", ["ringtune.torch_backend", "--compiler", compiler])

    status = main()

    assert 2 == status
    assert words in capsys.readouterr().err
