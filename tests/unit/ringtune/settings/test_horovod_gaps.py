# SPDX-License-Identifier: Apache-2.0
"""Every public name of Horovod's is here, or the documentation and the error name its replacement."""

import ast
import importlib
from pathlib import Path

import pytest

import ringtune.torch
import ringtune.torch as hvd
from ringtune.settings.horovod_gaps import GAPS, MEMBER_GAPS, gap_error, import_gap_error
from ringtune.torch.optimizer import DistributedMixin
from tests.unit.ringtune.settings.horovod_public_arguments import ARGUMENTS, MEMBERS
from tests.unit.ringtune.settings.horovod_public_names import NAMES

REPOSITORY = Path(__file__).resolve().parents[4]
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
    modules = {path.stem: path for path in folder.glob("*.py")} | {
        path.parent.name: path for path in folder.glob("*/__init__.py")
    }
    return {
        *exports[0],
        *(name for name, path in modules.items() if "raise import_gap_error" not in path.read_text("utf-8")),
    }


def definitions(front_end: str) -> dict[str, ast.FunctionDef]:
    """Return the functions at the top of a front end's modules, its own before those that it takes from others."""
    shared = ("tensorflow", "session") if front_end == "keras" else ("session",)
    found: dict[str, ast.FunctionDef] = {}
    for folder in (front_end, *shared):
        for module in sorted((PACKAGES / folder).glob("*.py")):
            for node in ast.parse(module.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, node)
    return found


def members_of(thing: str) -> set[str]:
    """Return the public members of an object of the front end for torch."""
    known: dict[str, object] = {
        "elastic.ElasticSampler": hvd.elastic.ElasticSampler([1, 2]),
        "elastic.State": hvd.elastic.State(),
        "ProcessSet": hvd.ProcessSet([0]),
        "DistributedOptimizer": DistributedMixin,
    }
    return set(dir(known[thing]))


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


@pytest.mark.parametrize("front_end", ARGUMENTS)
def test_arguments_are_where_horovod_has_them(front_end: str) -> None:
    """A call by position or by name means the same; arguments that have another place are on the page."""
    ours, elsewhere = definitions(front_end), {key.partition("(")[0] for key in MEMBER_GAPS if "(" in key}
    wrong = {}
    for name, horovods in ARGUMENTS[front_end].items():
        if name in GAPS.get(front_end, {}) or f"{front_end}.{name}" in elsewhere:
            continue
        given = [argument.arg for argument in ours[name].args.args]
        if horovods.split() != given[: len(horovods.split())]:
            wrong[name] = (horovods, given)

    assert {} == wrong


@pytest.mark.parametrize("thing", MEMBERS)
def test_objects_have_horovods_members(thing: str) -> None:
    """Methods and attributes are there, or on the page."""
    missing = {f"torch.{thing}.{name}" for name in set(MEMBERS[thing]) - members_of(thing)}

    assert {key for key in MEMBER_GAPS if key.startswith(f"torch.{thing}.")} == missing


def test_the_page_lists_arguments_and_members() -> None:
    """One row each, in order."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Arguments and members\n")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]

    assert [f"| `{name}` | {text} |" for name, text in sorted(MEMBER_GAPS.items())] == rows


@pytest.mark.parametrize(
    ("module", "words"),
    [("torch.mpi_ops", "in its place: its functions are names"), ("torch.functions", "in its place")],
)
def test_an_import_of_a_missing_module_says_what_to_use(module: str, words: str) -> None:
    """Programs import from Horovod's modules, too."""
    with pytest.raises(ImportError, match=words):
        importlib.import_module(f"ringtune.{module}")
    assert GAPS["tensorflow"]["data"] in str(import_gap_error("tensorflow", "data"))


@pytest.mark.parametrize("front_end", NAMES)
def test_sentences_end_up_in_one_line(front_end: str) -> None:
    """A row of the table and an error are one line each."""
    for name in GAPS[front_end]:
        assert 1 == len(str(gap_error(front_end, name)).splitlines())
