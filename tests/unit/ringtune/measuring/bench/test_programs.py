# SPDX-License-Identifier: Apache-2.0
"""Programs are compiled once; an error names its cause."""

import os
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.measuring.bench.programs import LIMIT, built

# Stands for a compiler: it notes each call and writes what `-o` names.
COMPILER = """#!/bin/sh
[ "$1" = --version ] && { echo VERSION; exit 0; }
echo called >> "$(dirname "$0")/calls"
for last; do :; done
echo built > "$last"
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that counts its calls, and a cache folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "compiler"
    path.write_text(COMPILER, encoding="utf-8")
    path.chmod(0o755)
    return path


def calls_of(compiler: Path) -> int:
    """Return the number of times that a compiler has compiled."""
    return len((compiler.parent / "calls").read_text(encoding="utf-8").splitlines())


def test_a_program_is_compiled_once(compiler: Path) -> None:
    """The second time it is there, in the user's cache folder."""
    first = built(LIMIT, str(compiler), os.environ)
    second = built(LIMIT, str(compiler), os.environ)

    assert first == second
    assert first.is_relative_to(compiler.parent / "home" / ".cache" / "ringtune")
    assert 1 == calls_of(compiler)


def test_another_compiler_builds_another_program(compiler: Path) -> None:
    """A version that has changed behind the same name, too."""
    first = built(LIMIT, str(compiler), os.environ)
    compiler.write_text(COMPILER.replace("VERSION", "VERSION 2"), encoding="utf-8")

    assert first != built(LIMIT, str(compiler), os.environ)
    assert 2 == calls_of(compiler)


def test_other_flags_build_another_program(compiler: Path) -> None:
    """The compiler's command may bring some."""
    assert built(LIMIT, str(compiler), os.environ) != built(LIMIT, f"{compiler} -g", os.environ)


def test_a_failing_compiler_is_quoted(compiler: Path) -> None:
    """The error has the compiler's command and output; no file is left in the cache folder."""
    compiler.write_text("#!/bin/sh\n[ $1 = --version ] && exit 0\necho no such flag >&2\nexit 1\n", encoding="utf-8")

    with pytest.raises(ConfigError, match=r"(?s)this has failed: .*limit\.cpp.*no such flag"):
        built(LIMIT, str(compiler), os.environ)

    assert [] == [path for path in (compiler.parent / "home").rglob("*") if path.is_file()]


def test_a_missing_compiler_is_named(compiler: Path) -> None:
    """The error names the missing compiler and the remedy."""
    with pytest.raises(ConfigError, match=r"no-such-compiler cannot be run .* name one with CXX"):
        built(LIMIT, str(compiler.parent / "no-such-compiler"), os.environ)
