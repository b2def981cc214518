# SPDX-License-Identifier: Apache-2.0
"""Tests of the ablation: variants differ from the policy in one rule, and the table pairs their runs."""

import io

import pytest
from rich.console import Console

from benchmarks.tuner.regret.ablation import (
    AS_IT_IS,
    PROBLEMS,
    VARIANTS,
    Run,
    TrustingDesigner,
    WithoutInitialDesign,
    WithoutRepeats,
    ablate,
    run,
    table_of,
)
from benchmarks.tuner.regret.problems import SURFACES, Sources
from ringtune.errors import ConfigError
from ringtune.tuner.designers.gp import GaussianProcessDesigner

SIMULATED = "manysmall_64x8_100gbit"


def printed(runs: list[Run]) -> dict[str, str]:
    """Return the table's rows as text, by variant."""
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(table_of(runs))
    lines = console.export_text().splitlines()
    return {name: line for name in VARIANTS for line in lines if line.startswith(f"│ {name} ")}


def test_each_variant_differs_from_the_policy() -> None:
    """No two variants are the same, so that every row of the table is of a rule."""
    assert len(set(VARIANTS.values())) == len(VARIANTS)


def test_variants_are_paired_by_problem_and_seed() -> None:
    """A variant that is one point worse in each run is so without an error; the policy itself has no difference."""
    runs = [
        Run(variant, problem, seed, 0.01 * seed + (0.01 if variant != AS_IT_IS else 0.0), -0.2, 0.0, 100, 9.0, 0.1)
        for variant in VARIANTS
        for problem in PROBLEMS
        for seed in range(3)
    ]

    rows = printed(runs)

    assert "+1.00 ± 0.00" in rows["no patience"]
    assert "within" not in rows["no patience"]
    assert "±" not in rows[AS_IT_IS]


def test_a_rule_that_changes_nothing_is_marked() -> None:
    """Its difference lies within two standard errors of zero."""
    runs = [Run(variant, problem, 0, 0.01, -0.2, 0.0, 100, 9.0, 0.1) for variant in VARIANTS for problem in PROBLEMS]

    assert "+0.00 ± 0.00 (within 2 SE)" in printed(runs)["no patience"]


@pytest.mark.parametrize("variant", ["no patience", "no initial design", "no repeats by the knowledge gradient"])
def test_a_variant_runs(variant: str) -> None:
    """A run comes to a decision that is no worse than the baseline."""
    found = run(Sources(SURFACES, None), variant, SIMULATED, 0)

    assert (found.variant, found.problem, found.seed) == (variant, SIMULATED, 0)
    assert found.loss <= 0.01
    assert found.steps > 0


def test_missing_data_is_named() -> None:
    """The public problems need `--data`."""
    with pytest.raises(ConfigError, match="pico_leonardo_2048x1_8192KiB: name the public data by --data DIR"):
        ablate(Sources(SURFACES, None), range(1), 1, Console(quiet=True))


@pytest.mark.parametrize("designer", [WithoutInitialDesign, WithoutRepeats, TrustingDesigner])
def test_a_variant_of_the_designer_overrides_what_the_designer_has(designer: type) -> None:
    """A method that was renamed in the designer would leave the rule on."""
    overridden = {name for name in vars(designer) if not name.startswith("__")}

    assert overridden
    assert overridden <= set(vars(GaussianProcessDesigner))
