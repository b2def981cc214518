# SPDX-License-Identifier: Apache-2.0
"""Containers and small objects of plain data: taken apart into a name and their parts, and put together again.

| object | its form |
|---|---|
| bytes, bytearray, complex, range | their value as text |
| set, frozenset, deque, OrderedDict, Counter, defaultdict | their items; a defaultdict's factory by its name |
| paths | class and text |
| argparse.Namespace, types.SimpleNamespace | their attributes |
| members of enums | class and name |
| named tuples, dataclasses, subclasses of list and dict that only add methods | class and fields |

A class goes by module and name. It is found among the modules that this process has imported; no module is imported
for it. No method of a found class is called: neither `__init__` nor `__setstate__`, nor the one named by `__reduce__`.
"""

import argparse
import base64
import dataclasses
import enum
import pathlib
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ringtune.errors import ConfigError

FACTORIES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, deque, Counter, OrderedDict)
}
"""Factories of a defaultdict by name."""
PATHS = {
    kind.__name__: kind
    for kind in (
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
    )
}
NAMESPACES = {kind.__name__: kind for kind in (argparse.Namespace, types.SimpleNamespace)}
MAPPINGS = {kind.__name__: kind for kind in (OrderedDict, Counter, defaultdict)}
SETS = {kind.__name__: kind for kind in (set, frozenset)}
SIZE = ("torch", "Size")  # a tuple of a framework whose constructor does nothing else
_CLASS_FORMS = frozenset({"enum", "flags", "tuple", "list", "dict", "dataclass"})
NEUTRAL_NAMES = frozenset(
    {
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__orig_bases__",
        "__parameters__",
        "__static_attributes__",
        "__firstlineno__",
        "__type_params__",
        "__slotnames__",  # of copyreg, which remembers by it
        "__abstractmethods__",
    }
)
"""Names that the body of a class may define, besides methods, without changing how a list or a dict works."""


class Parts(NamedTuple):
    """An object that was taken apart.

    Attributes:
        form: Name of its form.
        detail: Plain JSON of it: names, sizes and texts.
        children: The plain data in it.
    """

    form: str
    detail: Any
    children: Sequence[Any]

    @property
    def has_class(self) -> bool:
        """True if the receiver needs the object's class, which is none of the interpreter's."""
        return self.form in _CLASS_FORMS


def take_apart(value: Any) -> Parts | None:
    """Return the parts of an object; None for one that is no plain data.

    Raises:
        ConfigError: If its class has behaviour that would be lost; the message has the reason.
    """
    kind = type(value)
    found = _standard_parts(kind, value)
    if found is not None:
        return found
    if issubclass(kind, enum.Enum):
        return _enum_parts(value)
    if issubclass(kind, tuple) and (_is_named_tuple(kind) or (kind.__module__, kind.__qualname__) == SIZE):
        _check_attributes(value)
        return Parts("tuple", _address(kind), tuple(tuple.__iter__(value)))
    if issubclass(kind, list | dict):
        return _subclass_parts(kind, value)
    if dataclasses.is_dataclass(kind):
        return _dataclass_parts(kind, value)
    return None


def put_together(parts: Parts) -> Any:
    """Return the object that `take_apart` was given.

    Raises:
        ConfigError: If its class is not there, or is another one here.
        ValueError: If the parts are not from `take_apart`; so do KeyError, TypeError and AttributeError.
    """
    return _MAKERS[parts.form](parts.detail, list(parts.children))


# --- standard library


def _standard_parts(kind: type, value: Any) -> Parts | None:
    """Return the parts of a value of the interpreter's and its library's types; None for any other."""
    name = kind.__name__
    parts: Parts | None = None
    if kind in {bytes, bytearray}:
        parts = Parts("bytes", [name, base64.b64encode(value).decode()], ())
    elif kind is complex:
        parts = Parts("complex", [value.real.hex(), value.imag.hex()], ())
    elif kind is range:
        parts = Parts("range", [value.start, value.stop, value.step], ())
    elif SETS.get(name) is kind:
        parts = Parts("set", name, tuple(value))
    elif kind is deque:
        parts = Parts("deque", value.maxlen, tuple(value))
    elif MAPPINGS.get(name) is kind:
        parts = _mapping_parts(kind, value)
    elif PATHS.get(name) is kind:
        parts = Parts("path", [name, str(value)], ())
    elif NAMESPACES.get(name) is kind:
        parts = Parts("namespace", [name, list(vars(value))], tuple(vars(value).values()))
    return parts


def _mapping_parts(kind: type, value: Any) -> Parts:
    factory = value.default_factory if kind is defaultdict else None
    if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
        raise ConfigError(
            f"a defaultdict of {factory!r} cannot be sent to other ranks; one of {', '.join(FACTORIES)} can"
        )
    names, parts = _attributes_and_items(vars(value) if hasattr(value, "__dict__") else {}, value.items())
    return Parts("mapping", [kind.__name__, None if factory is None else factory.__name__, names], parts)


def _make_mapping(detail: Any, children: list[Any]) -> Any:
    name, factory, names = detail
    made: Any = (
        defaultdict(None if factory is None else FACTORIES[factory]) if name == "defaultdict" else MAPPINGS[name]()
    )
    for key, item in children[len(names) :]:
        made[key] = item
    _set_attributes(made, names, children)
    return made


def _make_namespace(detail: Any, children: list[Any]) -> Any:
    name, names = detail
    made = NAMESPACES[name]()
    vars(made).update(zip(names, children, strict=True))
    return made


def _make_bytes(detail: Any, children: list[Any]) -> Any:
    del children
    data = base64.b64decode(detail[1], validate=True)
    return bytearray(data) if detail[0] == "bytearray" else data


def _make_complex(detail: Any, children: list[Any]) -> complex:
    del children
    return complex(float.fromhex(detail[0]), float.fromhex(detail[1]))


# --- classes of the program


def _enum_parts(value: enum.Enum) -> Parts:
    kind = type(value)
    name = value._name_  # `name` may be a member of that name
    if name is not None and vars(kind)["_member_map_"].get(name) is value:
        return Parts("enum", [*_address(kind), name], ())
    if isinstance(value, enum.Flag) and isinstance(value._value_, int):
        return Parts("flags", [*_address(kind), value._value_], ())
    raise ConfigError(f"{value!r}, no member of its enum, cannot be sent to other ranks")


def _make_enum(detail: Any, children: list[Any]) -> Any:
    del children
    module, qualname, name = detail
    kind = _found(module, qualname, lambda kind: issubclass(kind, enum.Enum))
    members = vars(kind)["_member_map_"]
    if name not in members:
        raise ConfigError(f"{module}.{qualname} has no member {name!r} on this rank; run one program on all ranks")
    return members[name]


def _make_flags(detail: Any, children: list[Any]) -> Any:
    """Return several members of a flag, joined as the library joins them."""
    del children
    module, qualname, bits = detail
    kind = _found(module, qualname, lambda kind: issubclass(kind, enum.Flag))
    makes = _definitions(kind)
    if type(kind) is not enum.EnumMeta or makes["_missing_"] is not vars(enum.Flag)["_missing_"]:
        raise ConfigError(f"a {module}.{qualname} of {bits}, for its class makes members by a method of its own")
    return kind(int(bits))


def _is_named_tuple(kind: type) -> bool:
    """Return whether a class is one of `namedtuple` or `NamedTuple`, or adds methods to one."""
    return isinstance(_definitions(kind).get("_fields"), tuple)


def _definitions(kind: type) -> dict[str, Any]:
    """Return the definitions of a class and its bases, without asking the class."""
    return {name: thing for base in reversed(type.mro(kind)) for name, thing in vars(base).items()}


def _make_tuple(detail: Any, children: list[Any]) -> Any:
    module, qualname = detail
    if (module, qualname) == SIZE:
        return _found(module, qualname, lambda kind: issubclass(kind, tuple))([int(size) for size in children])
    kind = _found(module, qualname, lambda kind: issubclass(kind, tuple) and _is_named_tuple(kind))
    fields = _definitions(kind)["_fields"]
    if len(fields) != len(children):
        raise ConfigError(
            f"a {module}.{qualname} has {len(fields)} fields on this rank and {len(children)} where it comes from; run "
            "one program on all ranks"
        )
    return tuple.__new__(kind, children)


def _subclass_parts(kind: type, value: Any) -> Parts:
    base = list if issubclass(kind, list) else dict
    if not _only_adds_methods(kind, base):
        raise ConfigError(
            f"{named(kind)} cannot be sent to other ranks, for it is a {base.__name__} with behaviour of its own; give "
            f"{base.__name__}(...)"
        )
    items = list.__iter__(value) if base is list else dict.items(value)
    names, parts = _attributes_and_items(vars(value) if hasattr(value, "__dict__") else {}, items)
    return Parts(base.__name__, [*_address(kind), names], parts)


def _only_adds_methods(kind: type, base: type) -> bool:
    """Return whether the classes between a class and a builtin leave the builtin's own behaviour as it is."""
    between = [step for step in type.mro(kind) if step not in type.mro(base)]
    own = {name for step in between if step.__module__ not in {"typing", "collections.abc"} for name in vars(step)}
    special = {name for name in own if name.startswith("__") and name.endswith("__")} - NEUTRAL_NAMES
    return not special and not own & set(dir(base)) - NEUTRAL_NAMES


def _make_list(detail: Any, children: list[Any]) -> Any:
    module, qualname, names = detail
    made = list.__new__(
        _found(module, qualname, lambda kind: issubclass(kind, list) and _only_adds_methods(kind, list))
    )
    list.extend(made, children[len(names) :])
    _set_attributes(made, names, children)
    return made


def _make_dict(detail: Any, children: list[Any]) -> Any:
    module, qualname, names = detail
    made = dict.__new__(
        _found(module, qualname, lambda kind: issubclass(kind, dict) and _only_adds_methods(kind, dict))
    )
    for key, item in children[len(names) :]:
        dict.__setitem__(made, key, item)
    _set_attributes(made, names, children)
    return made


def _dataclass_parts(kind: type, value: Any) -> Parts:
    if not _is_plain_dataclass(kind):
        raise ConfigError(
            f"{named(kind)} cannot be sent to other ranks, for its class has a `__new__` or `__del__` of its own"
        )
    values = {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if hasattr(value, field.name)
    }
    values.update(vars(value) if hasattr(value, "__dict__") else {})
    return Parts("dataclass", [*_address(kind), list(values)], tuple(values.values()))


def _is_plain_dataclass(kind: type) -> bool:
    """Return whether the fields are all that an instance of a dataclass has."""
    known = _definitions(kind)
    return dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__ and "__del__" not in known


def _make_dataclass(detail: Any, children: list[Any]) -> Any:
    module, qualname, names = detail
    kind = _found(module, qualname, _is_plain_dataclass)
    fields = {field.name for field in dataclasses.fields(kind)}
    made = object.__new__(kind)
    slots = {name for base in type.mro(kind) for name in vars(base).get("__slots__", ())}
    for name, value in zip(names, children, strict=True):
        if name in slots and name in fields:
            object.__setattr__(made, name, value)
        else:
            _set_attributes(made, [name], [value])
    return made


# --- parts of all


def _attributes_and_items(attributes: dict[str, Any], items: Iterable[Any]) -> tuple[list[str], tuple[Any, ...]]:
    """Return the names of an object's attributes, and one tuple of their values and of the items."""
    return list(attributes), (*attributes.values(), *items)


def _check_attributes(value: Any) -> None:
    if getattr(value, "__dict__", None):
        raise ConfigError(f"{named(type(value))} with attributes besides its fields cannot be sent to other ranks")


def _set_attributes(made: Any, names: Sequence[str], values: Sequence[Any]) -> None:
    """Set attributes in the object's own dictionary, past every property and `__setattr__`."""
    if names:
        object.__getattribute__(made, "__dict__").update(zip(map(str, names), values, strict=False))


def _address(kind: type) -> list[str]:
    """Return the module and the name by which other ranks find a class.

    Raises:
        ConfigError: If it is not to be found there.
    """
    if _look_up(kind.__module__, kind.__qualname__) is not kind:
        raise ConfigError(
            f"{named(kind)} cannot be sent to other ranks, for no module holds its class by that name; define it in one"
        )
    return [kind.__module__, kind.__qualname__]


def _found(module: str, qualname: str, is_sound: Callable[[type], bool]) -> Any:
    """Return a class of a module that this process has imported, if it is of the kind that is looked for.

    Raises:
        ConfigError: If it is not.
    """
    kind = _look_up(module, qualname)
    if not isinstance(kind, type) or not is_sound(kind):
        raise ConfigError(
            f"this rank has no class {module}.{qualname} of the kind that another rank has sent; define it in a module "
            "that every rank imports, and run one program on all ranks"
        )
    return kind


def _look_up(module: str, qualname: str) -> Any:
    """Return the value that an imported module holds under a name; None if there is none. Runs no code of it."""
    holder: Any = sys.modules.get(module)
    for name in str(qualname).split("."):
        holder = vars(holder).get(name) if isinstance(holder, types.ModuleType | type) else None
    return holder


def named(kind: type) -> str:
    """Return the name of a class with its article."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


_MAKERS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "bytes": _make_bytes,
    "complex": _make_complex,
    "range": lambda detail, _: range(*map(int, detail)),
    "set": lambda detail, children: SETS[detail](children),
    "deque": lambda detail, children: deque(children, detail),
    "mapping": _make_mapping,
    "path": lambda detail, _: PATHS[detail[0]](detail[1]),
    "namespace": _make_namespace,
    "enum": _make_enum,
    "flags": _make_flags,
    "tuple": _make_tuple,
    "list": _make_list,
    "dict": _make_dict,
    "dataclass": _make_dataclass,
}
