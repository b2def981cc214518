# SPDX-License-Identifier: Apache-2.0
"""Folders hold one kind of file: tests import fixtures only, and programs of benchmarks stand apart from libraries."""

import re
from pathlib import Path

from tests.house.source_tree import PYTHON, SourceTree, Violation

TEST_IMPORT = re.compile(
    r"^\s*(?:from tests[\w.]*\.test_\w+ import|from tests[\w.]* import test_|import tests[\w.]*\.test_)"
)
BENCHMARKS = Path("benchmarks")
AREAS = ("engine", "tuner", "service")
FOLDERS = ", ".join(AREAS)
SHORT_NAMES = {BENCHMARKS / f"{name}.py": BENCHMARKS / "tuner" / name for name in ("regret", "measured")}
"""Short names of programs, which other documents name, such as `benchmarks.regret` of `benchmarks.tuner.regret`."""
IS_PROGRAM = '__name__ == "__main__"'


def test_imports(tree: SourceTree) -> list[Violation]:
    """Return the lines below tests/ that import from a module of tests, programs in strings included."""
    return [
        Violation(path, number, "imports from a module of tests; move what is shared to a module named for it")
        for path in tree.files(PYTHON, under=("tests",))
        for number, line in enumerate(tree.text(path).splitlines(), start=1)
        if TEST_IMPORT.match(line)
    ]


def benchmark_folders(tree: SourceTree) -> list[Violation]:
    """Return the files of benchmarks/ that stand in no area, and modules beside programs that cannot be started."""
    found = []
    for path in tree.files(under=(str(BENCHMARKS),)):
        area, *rest = path.relative_to(BENCHMARKS).parts
        if not rest and area != "README.md" and path not in SHORT_NAMES:
            found.append(Violation(path, 0, f"stands at the top; the folders are {FOLDERS}"))
        elif rest and area not in AREAS:
            found.append(Violation(path, 0, f"is in no area; the folders are {FOLDERS}"))
        elif path.suffix in PYTHON and _is_among_programs(area, rest) and IS_PROGRAM not in tree.text(path):
            found.append(Violation(path, 0, "stands among programs and is none; a folder named for it is its place"))
    return found


def _is_among_programs(area: str, rest: list[str]) -> bool:
    """Return whether a file stands where programs do: directly in an area, or in a folder of ranks' programs."""
    return (len(rest) == 1 and area in AREAS) or "ranks" in rest[:-1]


def unlisted_benchmarks(tree: SourceTree) -> list[Violation]:
    """Return the programs of benchmarks/ whose command does not stand in its README."""
    text = tree.text(BENCHMARKS / "README.md")
    paths = tree.files((".py",), under=(str(BENCHMARKS),))
    programs = [
        path.parent if path.name == "__main__.py" else path.with_suffix("") for path in paths if _is_program(path)
    ]
    listed = [*re.findall(r"benchmarks[\w.]+\w", text), *re.findall(r"benchmarks/[\w/]+(?=\.py)", text)]
    names = {name.replace(".", "/") for name in listed}
    names |= {str(program) for short, program in SHORT_NAMES.items() if str(short.with_suffix("")) in names}
    return [Violation(path, 0, "has no command in benchmarks/README.md") for path in programs if str(path) not in names]


def _is_program(path: Path) -> bool:
    """Return whether a file stands directly in an area, or begins the program of its folder."""
    return (len(path.parts) == 3 and path.parts[1] in AREAS) or path.name == "__main__.py"
