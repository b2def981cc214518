# SPDX-License-Identifier: Apache-2.0
"""The rule: verdicts of reporters against an adoption, in all combinations that decide otherwise."""

from dataclasses import dataclass
from typing import Any

import pytest

from ringtune.shared_service.advice.rule import Decision, KeyVerdicts, advice_on


@dataclass(frozen=True)
class Adopted:
    """A config that paired tests adopted."""

    adopted: int
    is_confirmed: bool
    is_supported: bool = True
    is_over_default: bool = True
    opposed: int = 0
    reporters: int = 2
    trusted_jobs: int = 0
    trials: int = 4
    jobs: int = 2
    speedup: float = 0.1
    ci_low: float = 0.05
    ci_high: float = 0.2
    newest_unix_s: float = 0.0
    config_values: Any = None
    baseline_values: Any = None


def verdicts(text: str) -> KeyVerdicts:
    """Return verdicts, the oldest first: `a+` adopted, `a-` kept; capital letters are jobs that count one by one."""
    words = text.split()
    return KeyVerdicts.of(
        Decision(word[0], float(number), word[1] == "+", word[0].isupper()) for number, word in enumerate(words)
    )


@pytest.mark.parametrize(
    ("told", "adopters", "standing"),
    [
        ("", "", None),
        ("a-", "", "default"),
        ("A- B-", "", "default"),
        ("A+", "A", "prior"),
        ("A- B+", "B", "prior"),
        ("A+ B-", "A", "default"),
        ("a+ b-", "a", "prior"),
        ("a+ a-", "a", "default"),
        ("a+ b- c-", "a", "default"),
        ("A+ B+", "AB", "confirmed"),
        ("A+ B+ C-", "AB", "confirmed"),
        ("A+ B+ C- D-", "AB", "prior"),
        ("A+ B+ C- D- E-", "AB", "default"),
        ("A+ B+ C- D- E- F+", "AB", "prior"),
        ("a+ b+ a- b-", "ab", "default"),
        ("a+", "", None),
        ("a- b+", "", "default"),
    ],
)
def test_an_adoption_is_upheld_by_as_many_as_keep_the_default(told: str, adopters: str, standing: str | None) -> None:
    """The newest verdict decides where it is not."""
    best = Adopted(len(adopters), is_confirmed=len(adopters) > 1) if adopters else None

    advice = advice_on(best, adopters, verdicts(told))

    assert standing == advice.standing
    assert (standing in {"confirmed", "prior"}) == (advice.best is best is not None)
    assert (standing == "confirmed") == advice.reason.startswith("confirmed")
