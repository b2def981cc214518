# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of `make test` adds up both parts and hides no test that did not run."""

import re
from pathlib import Path

import pytest

from tests.house.source_tree import REPOSITORY
from tests.summary import lacking, minutes_lines, recorded_lines, skip_reasons, summarize

PASSED = '<testcase name="a"/>'
FAILED = '<testcase name="b"><failure/></testcase>'
SKIPPED = '<testcase name="c"><skipped message="NOT RUN: namespaces need root"/></testcase>'
PARTS = ("native", "alone")


def results(folder: Path, native: str | None, alone: str | None) -> Path:
    """Write JUnit files for the parts that ran."""
    for part, cases in (("native", native), ("alone", alone)):
        if cases is not None:
            (folder / f"{part}.xml").write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    return folder


def test_the_parts_are_added_up(tmp_path: Path) -> None:
    """One line counts C++ and Python together; one failure makes the run bad."""
    line, is_good = summarize(results(tmp_path, PASSED + FAILED, PASSED + SKIPPED), PARTS, is_ci=True)

    assert ("2 passed, 1 failed, 1 skipped", False) == (line, is_good)


@pytest.mark.parametrize("is_ci", [False, True])
def test_a_part_that_the_machine_cannot_run_fails_continuous_integration_alone(tmp_path: Path, is_ci: bool) -> None:
    """Elsewhere the part is named with its reason, and the run is good."""
    (tmp_path / "not-run.txt").write_text("native: no GoogleTest\n", encoding="utf-8")

    line, is_good = summarize(results(tmp_path, None, PASSED), PARTS, is_ci=is_ci)

    assert (f"1 passed, {int(is_ci)} failed, 0 skipped, not run: native", not is_ci) == (line, is_good)
    assert {"native": "no GoogleTest"} == lacking(tmp_path)


def test_a_part_that_broke_without_results_is_a_failure(tmp_path: Path) -> None:
    """A build that failed left no file and announced no part."""
    _, is_good = summarize(results(tmp_path, None, PASSED), PARTS, is_ci=False)

    assert not is_good


def test_a_part_that_ended_with_an_error_is_counted(tmp_path: Path) -> None:
    """A failed lint shows in the last line."""
    line, is_good = summarize(results(tmp_path, PASSED, PASSED), PARTS, ["lint"], is_ci=True)

    assert ("2 passed, 1 failed, 0 skipped, ended with an error: lint", False) == (line, is_good)


def test_the_reasons_of_skips_are_counted(tmp_path: Path) -> None:
    """One line per thing that the machine lacks, with the number of tests."""
    assert {"namespaces need root": 2} == skip_reasons(results(tmp_path, SKIPPED, PASSED + SKIPPED))


def test_the_minutes_of_the_parts_are_listed(tmp_path: Path) -> None:
    """Each part has its minutes, and the last line their sum."""
    (tmp_path / "seconds.txt").write_text("core 360\nwide 90\n", encoding="utf-8")

    assert ["   6.0 min  core", "   1.5 min  wide", "   7.5 min  in all"] == list(minutes_lines(tmp_path))


def test_what_tests_recorded_is_listed(tmp_path: Path) -> None:
    """A line for each test with figures, of pytest's and GoogleTest's making."""
    recorded = '<testcase name="kill"><properties><property name="worst_s" value="0.3"/></properties></testcase>'

    lines = list(recorded_lines(results(tmp_path, recorded, PASSED + recorded)))

    assert ["alone: kill: worst_s=0.3", "native: kill: worst_s=0.3"] == lines


WRITES_A_PART = re.compile(r"(?:call pytest,|ENGINE_BUILD\),,|junitxml=\$\(RESULTS\)/)([a-z]+)")


def test_every_part_that_make_runs_is_expected() -> None:
    """A part under a new name would otherwise count as one that did not run, or not be missed."""
    recipes = (REPOSITORY / "tests" / "targets.mk").read_text(encoding="utf-8").replace("\\\n", "")

    core, everything = (set(names.split()) for names in re.findall(r"--parts ([a-z -]+[a-z])", recipes))

    assert {"native", "alone", "ranks"} == core
    assert core | set(WRITES_A_PART.findall(recipes)) - {"mpi"} == everything - {"mpi-mpich", "mpi-openmpi"}
