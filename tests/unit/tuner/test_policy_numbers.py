# SPDX-License-Identifier: Apache-2.0
"""Tests of the policy's numbers: each is explained, printed and used."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from docs.generators.policy_numbers import PAGE, with_table
from ringtune.tuner.policy_numbers import NumberDoc, Policy, policy_numbers

TUNER = Path(__file__).parents[3] / "tuner"


def attributes() -> Iterator[str]:
    """Yield the name of every attribute that the tuner reads."""
    for path in TUNER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                yield node.attr


def test_the_page_prints_the_numbers_as_they_are() -> None:
    """`python -m docs.generators.policy_numbers` was run after the last change."""
    page = PAGE.read_text(encoding="utf-8")

    assert page == with_table(page)
    assert len(page.splitlines()) <= 150


@pytest.mark.parametrize("number", policy_numbers(), ids=lambda number: number.name)
def test_a_number_has_a_unit_and_a_reason(number: NumberDoc) -> None:
    """The reason is one sentence."""
    assert number.unit
    assert number.reason.endswith(".")


def test_every_number_is_used() -> None:
    """A number that no code reads has no effect."""
    assert set() == {field.name for field in fields(Policy)} - set(attributes())


def test_the_numbers_are_few() -> None:
    """Sixty are the most that a reader can hold against the code."""
    assert len(fields(Policy)) <= 60
