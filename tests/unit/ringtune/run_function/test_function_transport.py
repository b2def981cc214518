# SPDX-License-Identifier: Apache-2.0
"""Description of a function: by name if it can be imported, else by source; obstacles are named."""

import importlib.util
import linecache
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from ringtune.errors import ConfigError
from ringtune.run_function.function_transport import Described, describe

NOTEBOOK = """
import functools
import json
import xml.etree.ElementTree
import numpy as np
from dataclasses import dataclass
from math import sqrt as root
from pathlib import Path as Folder

FACTOR = 3
TABLE = np.arange(3)
unused = open(__file__)
handle = unused

def traced(function):
    @functools.wraps(function)
    def wrapper(*args):
        return ["traced", function(*args)]
    return wrapper

@dataclass
class Box:
    side: float
    def area(self):
        return self.side ** 2 * FACTOR

def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)

@traced
def all_of_it(side, unused=None):
    text = json.dumps([Box(side).area(), recursive(4), root(9.0), int(TABLE.sum()), Folder("a").name, max(1, 2)])
    return text + xml.etree.ElementTree.fromstring("<tag/>").tag

def with_default(value=FACTOR, *, places: "Folder" = Folder("b")):
    return [str(place) for place in [places]] + [value]

def shadowing(TABLE):
    handle = [FACTOR for FACTOR in TABLE]
    return handle

def uses_a_file():
    return handle.read()

def makes_a_closure():
    captured = 5
    def inner():
        return captured
    return inner

def makes_a_plain_one():
    def inner(x):
        return x + FACTOR
    return inner

square = lambda x: x * x
renamed = recursive
"""


@pytest.fixture
def notebook(tmp_path: Path) -> dict[str, Any]:
    """Return the namespace that cells ran in: no module that another process could import."""
    file = tmp_path / "cell.py"
    file.write_text(NOTEBOOK, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("__main__", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    main = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules["__main__"] = main
    linecache.checkcache()
    return vars(module)


def made_again(described: Described, folder: Path) -> Callable[..., Any]:
    """Return the function as a rank makes it: from a module that holds just the source."""
    file = folder / "made.py"
    file.write_text(described.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("made", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["made"] = module  # dataclasses look for it there
    vars(module).update(described.values)
    spec.loader.exec_module(module)
    function = getattr(module, described.name)
    assert isinstance(function, FunctionType)
    return function


def test_a_modules_function_goes_by_its_name() -> None:
    """Its source is not sent."""
    assert Described("json", "dumps") == describe(importlib.import_module("json").dumps)


def test_a_notebooks_function_goes_with_all_that_it_uses(notebook: dict[str, Any], tmp_path: Path) -> None:
    """Decorator, class, other functions, modules and their parts, names under other names, arrays, constants."""
    described = describe(notebook["all_of_it"])

    again = made_again(described, tmp_path)

    assert ["traced", '[12.0, 24, 3.0, 3, "a", 2]tag'] == again(2.0)
    assert notebook["all_of_it"](2.0) == again(2.0)
    assert {"FACTOR", "TABLE"} == set(described.values)
    np.testing.assert_array_equal([0, 1, 2], described.values["TABLE"])


@pytest.mark.parametrize(
    ("name", "args", "result"), [("with_default", (), ["b", 3]), ("shadowing", ([1],), [1]), ("renamed", (3,), 6)]
)
def test_what_is_used_is_told_from_what_only_has_the_name(
    name: str, args: tuple[Any, ...], result: Any, notebook: dict[str, Any], tmp_path: Path
) -> None:
    """Defaults are used; parameters and local names hide outer names."""
    assert result == made_again(describe(notebook[name]), tmp_path)(*args)


def test_a_function_made_in_another_one_goes_where_it_holds_nothing_of_it(
    notebook: dict[str, Any], tmp_path: Path
) -> None:
    """The indentation of a nested function does not matter."""
    assert 5 == made_again(describe(notebook["makes_a_plain_one"]()), tmp_path)(2)


def test_a_closure_is_refused_with_the_names_it_holds(notebook: dict[str, Any]) -> None:
    """The error names the variables of the closure, and the remedy."""
    with pytest.raises(ConfigError, match="inner uses captured of the function around it.*pass it as an argument"):
        describe(notebook["makes_a_closure"]())


def test_an_object_that_cannot_go_along_is_named(notebook: dict[str, Any]) -> None:
    """An open file, a model: the error has its name, its type, and the remedy."""
    with pytest.raises(ConfigError, match="uses_a_file uses 'handle', a _io.TextIOWrapper.*make it inside"):
        describe(notebook["uses_a_file"])


@pytest.mark.parametrize(
    ("function", "words"),
    [(math.sqrt, "builtin_function_or_method"), (print, "builtin"), ([].append, "builtin"), (int, "a type cannot")],
    ids=["of C", "builtin", "method", "class"],
)
def test_what_no_def_has_made_is_refused(function: Any, words: str) -> None:
    """A callable without a def has no source."""
    with pytest.raises(ConfigError, match=words):
        describe(function)


def test_a_lambda_is_refused(notebook: dict[str, Any]) -> None:
    """The source of a lambda is the whole line."""
    with pytest.raises(ConfigError, match="lambda cannot be run on other ranks"):
        describe(notebook["square"])


def test_a_function_without_source_is_refused() -> None:
    """A function that was typed into a Python prompt is refused."""
    code = compile("def typed(): pass", "<stdin>", "exec").co_consts[0]

    with pytest.raises(ConfigError, match="source of typed cannot be found"):
        describe(FunctionType(code, {"__name__": "__main__"}, "typed"))


def test_annotations_that_were_not_looked_at_are_not_looked_at_there(tmp_path: Path) -> None:
    """Annotations under `from __future__ import annotations` may have names that exist nowhere."""
    text = "from __future__ import annotations\n\ndef annotated(x: Missing) -> Missing:\n    return x + 1\n"
    file = tmp_path / "cell.py"
    file.write_text(text, encoding="utf-8")
    code = next(part for part in compile(text, str(file), "exec").co_consts if hasattr(part, "co_code"))

    described = describe(FunctionType(code, {"__name__": "__main__"}, "annotated"))

    assert 3 == made_again(described, tmp_path)(2)
