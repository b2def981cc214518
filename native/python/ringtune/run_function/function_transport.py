# SPDX-License-Identifier: Apache-2.0
"""Describes a function so that another process can make it again: by its name, or by source text.

A function that a module holds under its name is imported there. One of a notebook or of the program itself is sent
as source, together with the names that it uses of its surroundings: modules become imports, functions and classes of
the same place their own source, plain data is sent along. Anything else, a model or a file, has to be made inside the
function, and so have the variables of a function around it (a closure): they are errors that name it.
"""

import __future__

import ast
import importlib
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from ringtune.errors import ConfigError
from ringtune.system.plain_classes import take_apart

_ADVICE = "pass it as an argument, if it is plain data, an array or a tensor; else make it inside of the function"


@dataclass(frozen=True)
class Described:
    """A function, or the source and values to make it again.

    Attributes:
        module: Module to import it from; empty for one that comes as source.
        name: Its name there, or in the source.
        source: Text of a module that defines it; empty for one that is imported.
        values: Plain data that the source uses, by name.
    """

    module: str
    name: str
    source: str = ""
    values: dict[str, Any] = field(default_factory=dict)


def describe(function: Callable[..., Any]) -> Described:
    """Return how another process makes the function again.

    Raises:
        ConfigError: If it cannot; the message names the obstacle.
    """
    if not isinstance(function, FunctionType):
        raise ConfigError(
            f"a {type(function).__name__} cannot be run on other ranks; a function that `def` has made can"
        )
    if _is_importable(function):
        return Described(function.__module__, function.__qualname__)
    if function.__name__ == "<lambda>":
        raise ConfigError("a lambda cannot be run on other ranks, for it has no source of its own; make it with `def`")
    collected = _Collected(function.__globals__)
    collected.add_function(function.__name__, function)
    return Described("", function.__name__, collected.text(), collected.values)


def _is_importable(thing: Any) -> bool:
    """Return whether another process finds this very thing by its module and name."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "")
    if not isinstance(module, str) or module == "__main__" or not name.isidentifier():
        return False
    holder = sys.modules.get(module)
    return getattr(holder, "__spec__", None) is not None and getattr(holder, name, None) is thing


class _Collected:
    """Contents of a module in which functions of one namespace work."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._head: dict[str, None] = {}
        self._imports: dict[str, None] = {}  # in order, each once
        self._definitions: dict[str, str] = {}
        self._seen: set[str] = set()
        self.values: dict[str, Any] = {}

    def text(self) -> str:
        """Return the module's source, each definition after those that it uses."""
        return "\n".join([*self._head, *self._imports, "", *self._definitions.values()])

    def add_function(self, name: str, function: FunctionType) -> None:
        inner = inspect.unwrap(function)  # a decorator's wrapper; the source has the decorator's line
        if inner.__closure__:
            names = ", ".join(inner.__code__.co_freevars)
            raise ConfigError(
                f"the function {function.__name__} uses {names} of the function around it, which other ranks do not "
                f"have; {_ADVICE}"
            )
        if inner.__code__.co_flags & __future__.annotations.compiler_flag:  # they may name what is nowhere
            self._head["from __future__ import annotations"] = None
        self._add_definition(name, function.__name__, _source_of(inner))

    def _add_definition(self, name: str, own_name: str, source: str) -> None:
        self._seen.add(name)
        tree = ast.parse(source)
        for used in sorted(_global_names(symtable.symtable(source, name, "exec"))):
            self._add_used(used, own_name, tree)
        if own_name != name:
            source += f"\n\n{name} = {own_name}\n"
        self._definitions[name] = source

    def _add_used(self, name: str, user: str, tree: ast.Module) -> None:
        if name not in self._namespace:  # a builtin, or an error here as well
            return
        thing = self._namespace[name]
        if isinstance(thing, ModuleType):  # known or not: another function may use another part of it
            self._add_module(name, thing, tree)
            return
        if name in self._seen:
            return
        self._seen.add(name)
        if _is_importable(thing):
            self._imports[f"from {thing.__module__} import {thing.__qualname__} as {name}"] = None
        elif isinstance(thing, FunctionType):
            self.add_function(name, thing)
        elif isinstance(thing, type):
            self._add_definition(name, thing.__name__, _source_of_class(thing))
        elif _is_plain(thing) or _is_leaf(thing):
            self.values[name] = thing
        else:
            raise ConfigError(
                f"the function {user} uses {name!r}, a {type(thing).__module__}.{type(thing).__qualname__} that other "
                f"ranks do not have; {_ADVICE}"
            )

    def _add_module(self, name: str, module: ModuleType, tree: ast.Module) -> None:
        """Import a module, and those parts of it that the code names and that were imported here."""
        self._imports[f"import {module.__name__} as {name}"] = None
        for chain in _attribute_chains(tree, name):
            path = module.__name__
            for part in chain:
                path = f"{path}.{part}"
                if not isinstance(sys.modules.get(path), ModuleType):
                    break
                self._imports[f"import {path}"] = None


def _is_plain(thing: Any) -> bool:
    """Return whether it is of a kind that plain data has; its contents are looked at when it is sent."""
    is_builtin = thing is None or isinstance(thing, bool | int | float | str | list | tuple | dict)
    return is_builtin or take_apart(thing) is not None


def _is_leaf(thing: Any) -> bool:
    """Return whether it is an array or a tensor, without importing numpy or torch."""
    kinds = (("numpy", "ndarray"), ("numpy", "generic"), ("torch", "Tensor"))
    known = [getattr(sys.modules[module], kind) for module, kind in kinds if module in sys.modules]
    return isinstance(thing, tuple(known))


def _global_names(module: symtable.SymbolTable) -> set[str]:
    """Return the names that a module's definitions take from its surroundings, without its own definitions."""
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned()}
    used = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
    used.update(*(_names_outside(scope) for scope in module.get_children()))
    return {name for name in used - defined if not (name.startswith("__") and name.endswith("__"))}


def _names_outside(scope: symtable.SymbolTable) -> set[str]:
    """Return the global names that a function or class, with the definitions inside of it, uses."""
    names = {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_referenced() and symbol.is_global()}
    return names.union(*(_names_outside(inner) for inner in scope.get_children()))


def _attribute_chains(tree: ast.AST, name: str) -> Iterator[list[str]]:
    """Yield [b, c] for each a.b.c where a is the name."""
    for node in ast.walk(tree):
        chain: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        if chain and isinstance(inner, ast.Name) and inner.id == name:
            yield chain


def _source_of(function: FunctionType) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the source of {function.__name__} cannot be found ({error}); put it into a file or a notebook's cell"
        ) from error


def _source_of_class(kind: type) -> str:
    """Return the last definition of a class in the file, or the cell, that one of its methods comes from."""
    files = {value.__code__.co_filename for value in vars(kind).values() if isinstance(value, FunctionType)}
    for file in sorted(files):
        lines = linecache.getlines(file)
        for node in reversed(ast.parse("".join(lines)).body if lines else []):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return "".join(lines[first - 1 : node.end_lineno])
    raise ConfigError(f"the source of the class {kind.__name__} cannot be found; put it into a module and import it")


def imported(module: str, name: str) -> Callable[..., Any]:
    """Return a function of an importable module."""
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found
