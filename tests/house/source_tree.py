# SPDX-License-Identifier: Apache-2.0
"""List the project's files and name the faults in them.

Duty: the code that all gates share. A gate is a function from a `SourceTree` to violations; it is tested on a tree that
breaks its rule and applied to this repository.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = (".py", ".pyi")
CXX = (".cpp", ".h", ".cu")
PACKAGE_FOLDERS = ("native/python/ringtune", "tuner", "service", "dashboards")
LINKS = tuple(f"native/python/ringtune/{name}" for name in ("tuner", "service", "dashboards"))


@dataclass(frozen=True)
class Violation:
    """One place that breaks a rule of the house."""

    path: Path  # relative to the tree's root
    line: int  # counted from 1; 0 for the whole file
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class SourceTree:
    """The files below a root that git tracks or would track; all files where the root is no repository."""

    root: Path

    def files(self, suffixes: tuple[str, ...] = (), under: tuple[str, ...] = ("",)) -> Iterator[Path]:
        """Yield paths relative to the root, sorted, links left out.

        Args:
            suffixes: Endings to keep; empty keeps all.
            under: Folders or files to keep, relative to the root; "" keeps all.
        """
        for path in sorted(self._listed()):
            is_wanted = not suffixes or path.suffix in suffixes
            is_inside = any(folder == "" or path.is_relative_to(folder) for folder in under)
            if is_wanted and is_inside and (self.root / path).is_file() and not (self.root / path).is_symlink():
                yield path

    def text(self, path: Path) -> str:
        """Return the text of a file given relative to the root."""
        return (self.root / path).read_text(encoding="utf-8")

    def python_modules(self) -> Iterator[tuple[str, Path]]:
        """Yield the package's modules: dotted name under `ringtune`, path relative to the root."""
        for folder in PACKAGE_FOLDERS:
            prefix = ["ringtune"] if folder.endswith("/ringtune") else ["ringtune", folder]
            for path in self.files(PYTHON, under=(folder,)):
                parts = [*prefix, *path.relative_to(folder).with_suffix("").parts]
                yield ".".join(part for part in parts if part != "__init__"), path

    def _listed(self) -> list[Path]:
        if not (self.root / ".git").exists():
            return [path.relative_to(self.root) for path in self.root.rglob("*")]
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listing = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout
        return [Path(name) for name in set(listing.split("\0")) if name]


def listing(violations: list[Violation]) -> str:
    """Return the violations as text, one per line, for the output of a failing gate."""
    return "\n".join(str(violation) for violation in violations)
