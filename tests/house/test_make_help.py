# SPDX-License-Identifier: Apache-2.0
"""`make help` is a page that one can read: every target on one line, in five groups."""

import re
import shutil
import subprocess

import pytest

from tests.house.source_tree import REPOSITORY

GROUPS = ["Set-up", "Demonstration and benchmarks", "Documents", "Release", "Tests and style"]
COLUMNS = 120
INTERNAL = {"native-tests", "test-alone", "test-ranks", "test-wide", "test-beside-wide", "environments"}
"""Targets that others start; a person has no use for them."""


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The lines that `make help` prints."""
    if shutil.which("make") is None:
        pytest.skip("NOT RUN: make is not there")
    return subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_help_has_five_groups_in_order(printed: list[str]) -> None:
    """Set-up comes first, release last; a line that is no group is a target."""
    assert GROUPS == [line for line in printed if line and not line.startswith("  make ")]


def phony_targets() -> set[str]:
    """Return the names that the makefiles declare to be no files, those with variables left out."""
    files = (REPOSITORY / "Makefile", REPOSITORY / "tests" / "targets.mk")
    makefiles = "\n".join(file.read_text(encoding="utf-8") for file in files).replace("\\\n", " ")
    listings = re.findall(r"^\.PHONY: (.*)$", makefiles, re.MULTILINE)
    return {name for listing in listings for name in listing.split() if "$" not in name}


def test_each_target_has_one_line(printed: list[str]) -> None:
    """Each phony target is listed once, with a verb in front, within the width of a terminal."""
    listed = [re.match(r"  make (\S+) +(\S.*)$", line) for line in printed if line.startswith("  make ")]
    names = [match[1] for match in listed if match and match[2][0].islower()]

    assert sorted(phony_targets() - INTERNAL) == sorted(names)
    assert [] == [line for line in printed if len(line) > COLUMNS]
