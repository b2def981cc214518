# SPDX-License-Identifier: Apache-2.0
"""Names of registered designers as pytest's parameters; those whose packages are not installed are skipped."""

import importlib.util
from collections.abc import Iterable

import pytest

from ringtune.tuner.designers.registry import LATE_MODULES


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    """Return the mark that skips a designer, with its reason; none where it can be used."""
    packages = sorted({module.partition(".")[0] for module in LATE_MODULES.get(name, ())} - {"ringtune"})
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return [pytest.mark.skip(reason=f"{name} needs {', '.join(missing)}, of the extra optuna")] if missing else []


def parameters_of(names: Iterable[str]) -> list[object]:
    """Return pytest's parameters."""
    return [pytest.param(name, marks=marks_of(name)) for name in names]
