# SPDX-License-Identifier: Apache-2.0
"""`make setup` names all that is missing before it begins, shows how far it is, and waits for another make."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from native.packaging import prerequisites
from native.packaging.progress import Progress, run
from tests.house.source_tree import REPOSITORY

STEP = "import sys; print('[1/2] Building'); print('broken'); sys.exit(3)"


@pytest.mark.parametrize(
    ("missing", "named", "packages"),
    [
        ({"has_headers"}, ["Python.h"], ["apt-get install python3-dev.", "dnf install python3-devel."]),
        (
            {"has_headers", "has_pip_for_environments"},
            ["Python.h", "ensurepip"],
            ["apt-get install python3-dev python3-venv.", "dnf install python3-devel python3-pip."],
        ),
    ],
)
def test_all_that_is_missing_is_in_one_line(
    missing: set[str], named: list[str], packages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line has the package names of Debian and of Fedora."""
    for name in missing:
        monkeypatch.setattr(prerequisites, name, lambda: False)

    line = prerequisites.complaint(REPOSITORY, has_compiler=True)

    assert all(text in line for text in (*named, *packages)), line
    assert "\n" not in line


def test_git_and_disk_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search path without git, and a file system that is too small, are named together."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(prerequisites, "DISK_BYTES", 1 << 62)

    line = prerequisites.complaint(tmp_path, has_compiler=True)

    assert "git" in line
    assert "GB of disk in" in line


def test_an_old_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the interpreter, its version, and the way to choose another."""
    monkeypatch.setattr(prerequisites, "OLDEST_PYTHON", (99, 0))

    line = prerequisites.complaint(REPOSITORY, has_compiler=True)

    assert "Python 99.0 or newer" in line
    assert "PYTHON=" in line


def test_a_machine_that_has_all_gets_no_line() -> None:
    """This environment was set up here, so no prerequisite is missing: every check can be met."""
    line = prerequisites.complaint(REPOSITORY, has_compiler=True)

    assert not line


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["  [12/87] Building CXX object x.o"], "file 12 of 87"),
        (["Collecting numpy==2 (from x)", "Collecting scipy"], "2 packages found"),
        (
            ["Collecting torch", "  Downloading torch-2.13.0-cp311.whl (180.0 MB)"],
            "1 packages found, downloads torch (180.0 MB)",
        ),
        (["Collecting a", "Installing collected packages: a"], "unpacks 1 packages"),
    ],
)
def test_progress_is_read_from_pip_and_ninja(lines: list[str], shown: str) -> None:
    """The words name the file that is compiled, or the package that is fetched."""
    progress = Progress()

    for line in lines:
        progress.read(line)

    assert shown == str(progress)


def test_a_step_that_fails_shows_its_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is the step's, and the log has everything."""
    log = tmp_path / "setup.log"

    code = run("a step", log, [sys.executable, "-c", STEP])

    shown = capsys.readouterr().out
    assert 3 == code
    assert "a step: failed" in shown
    assert "broken" in shown
    assert "broken" in log.read_text(encoding="utf-8")


def test_warnings_of_the_compiler_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that succeeds says how many there were, for they fail it in continuous integration."""
    warning = "../native/src/a.cpp:20:70: warning: ISO C++ does not support this [-Wpedantic]"

    run("a step", tmp_path / "setup.log", [sys.executable, "-c", f"print({warning!r})"])

    assert "the compiler gave 1 warnings" in capsys.readouterr().out


def test_two_makes_at_once_take_turns(tmp_path: Path) -> None:
    """A make that finds the lock of the clone taken says so, and goes on when the other has ended."""
    definition = _definition("locked")
    (tmp_path / "Makefile").write_text(
        f"{definition}\nfirst:\n\t@$(call locked,work)\nwork:\n\t@echo begins; read line < $$GATE; echo ends\n",
        encoding="utf-8",
    )
    gates = tmp_path / "first_gate", tmp_path / "second_gate"  # one each: the second make may open its own at any time
    for gate in gates:
        os.mkfifo(gate)

    with _make(gates[0]) as one:
        assert one.stdout is not None
        assert "begins\n" == one.stdout.readline()
        with _make(gates[1]) as other:
            assert other.stdout is not None
            waiting = other.stdout.readline()
            gates[0].write_text("\n", encoding="ascii")
            first = one.communicate()[0]
            begun = other.stdout.readline()
            gates[1].write_text("\n", encoding="ascii")
            second = other.communicate()[0]

    assert "another make sets up this clone" in waiting
    assert ("ends\n", "begins\n", "ends\n") == (first, begun, second)


def _definition(name: str) -> str:
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    start = text.index(f"\n{name} = ") + 1
    end = start
    while text[: (end := text.index("\n", end) + 1)].endswith("\\\n"):
        pass
    return text[start:end]


def _make(gate: Path) -> "subprocess.Popen[str]":
    variables = {**os.environ, "GATE": str(gate)}
    return subprocess.Popen(
        ["make", "--no-print-directory", "first"],
        cwd=gate.parent,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
