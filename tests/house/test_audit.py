# SPDX-License-Identifier: Apache-2.0
"""`make audit` tells packages known to be safe from packages that were never checked."""

import json

import pytest

from tests.audit import Answers, answers_in, rounds, verdict
from tests.house.lock_files import pins_of

LOCK = "".join(
    f"{line} \\\n    --hash=sha256:0a\n"
    for line in ("numpy==2.4 ; python_version < '3.12'", "numpy==2.5 ; python_version >= '3.12'", "anyio==4")
)
PACKAGES = frozenset({("numpy", "2.4"), ("anyio", "4")})


def test_every_version_is_asked_about_whatever_python_asks() -> None:
    """Markers do not hide the versions for another Python, as they would from pip-audit."""
    queried = [package for packages in rounds(pins_of(LOCK)) for package in packages.items()]

    assert [("anyio", "4"), ("numpy", "2.4"), ("numpy", "2.5")] == sorted(queried)


def test_a_skipped_package_was_not_asked_about() -> None:
    """A package that pip-audit skips, for its database does not know it, counts as not answered."""
    skipped = {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited: numpy (2.4)"}
    found = {"name": "anyio", "version": "4", "vulns": [{"id": "GHSA-1", "fix_versions": ["5"]}]}

    answers = answers_in(json.dumps({"dependencies": [skipped, found], "fixes": []}))

    assert Answers(frozenset({("anyio", "4")}), {("anyio", "4"): ("GHSA-1",)}) == answers


@pytest.mark.parametrize(
    ("answers", "status", "words"),
    [
        (Answers(PACKAGES, {}), 0, "2 of 2 packages asked about, 0 vulnerable"),
        (Answers(PACKAGES, {("anyio", "4"): ("GHSA-1",)}), 1, "VULNERABLE: anyio 4: GHSA-1"),
        (Answers(frozenset(), {}, ("osv: no route",)), 2, "NOT ASKED: no database answered for 2 of 2 packages"),
        (Answers(frozenset({("anyio", "4")}), {}), 2, "NOT ASKED: no database answered for 1 of 2 packages"),
    ],
)
def test_only_an_answer_about_every_package_is_a_good_end(answers: Answers, status: int, words: str) -> None:
    """Silence has an exit status of its own, and names how many packages it covers."""
    text, ended = verdict(PACKAGES, answers)

    assert status == ended
    assert words in text
