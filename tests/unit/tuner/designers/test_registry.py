# SPDX-License-Identifier: Apache-2.0
"""Tests of the table of designers."""

import subprocess
import sys

import pytest

from ringtune.tuner import DEFAULT_DESIGNER, default_config, designer_names, make_designer, search_space

SPACE = search_space({}, default_config())


@pytest.mark.parametrize("name", designer_names())
def test_every_name_makes_a_designer_of_that_name(name: str) -> None:
    """The log calls a designer as the registry does."""
    assert name == make_designer(name, SPACE, 0).name


@pytest.mark.parametrize("name", ["annealing", "optuna", "optuna:annealing", "tpe"])
def test_an_unknown_name_is_refused_with_those_there_are(name: str) -> None:
    """The message helps, for samplers of a library as well."""
    with pytest.raises(ValueError, match=f"no designer '{name}'; there are gp, random, skopt, optuna:tpe, "):
        make_designer(name, SPACE, 0)


def test_the_default_is_registered() -> None:
    """The default designer of a job exists."""
    assert DEFAULT_DESIGNER in designer_names()


def test_a_loaded_designer_imports_nothing_more_when_it_works() -> None:
    """Every import of a designer happens before training begins."""
    script = """
import sys
from ringtune.tuner import DEFAULT_DESIGNER, default_config, load_designer, make_designer, search_space
from ringtune.tuner.testing import measured_trial
designer = make_designer(DEFAULT_DESIGNER, search_space({}, default_config()), 0)
load_designer(DEFAULT_DESIGNER)
before = set(sys.modules)
space = search_space({}, default_config())
configs = [default_config(), *(space.at_quantiles([q] * len(space.free)) for q in (0.1, 0.3, 0.5, 0.7))]
designer.update([measured_trial(i, config, [20.0 + i]) for i, config in enumerate(configs)])
designer.suggest()
print(sorted(set(sys.modules) - before))
"""

    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)

    assert "[]" == done.stdout.strip()
