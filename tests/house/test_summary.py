# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of `make test` adds up both parts and hides nothing that did not run."""

import re
from pathlib import Path

from tests.summary import EXPECTED_PARTS, recorded_lines, summarize

PASSED = '<testcase name="a"/>'
FAILED = '<testcase name="b"><failure/></testcase>'
SKIPPED = '<testcase name="c"><skipped/></testcase>'


def results(folder: Path, native: str | None, python: str | None) -> Path:
    """Write JUnit files for the parts that ran; those with environments of their own have no cases."""
    for part in ("mpi-mpich", "mpi-openmpi", "tensorflow", "python-jobs"):
        (folder / f"{part}.xml").write_text("<testsuite/>", encoding="utf-8")
    for part, cases in (("native-tests", native), ("python-unit", python)):
        if cases is not None:
            (folder / f"{part}.xml").write_text(f"<testsuite>{cases}</testsuite>", encoding="utf-8")
    return folder


def test_the_parts_are_added_up(tmp_path: Path) -> None:
    """One line counts C++ and Python together; one failure makes the run bad."""
    line, is_good = summarize(results(tmp_path, PASSED + FAILED, PASSED + SKIPPED), [], is_ci=True)

    assert ("2 passed, 1 failed, 1 skipped", False) == (line, is_good)


def test_an_announced_part_that_did_not_run_is_named(tmp_path: Path) -> None:
    """At home the C++ tests may be missing, and are named."""
    (tmp_path / "not-run.txt").write_text("tests/native\n", encoding="utf-8")

    line, is_good = summarize(results(tmp_path, None, PASSED), [], is_ci=False)

    assert ("1 passed, 0 failed, 0 skipped, not run: native-tests", True) == (line, is_good)


def test_a_part_that_did_not_run_fails_continuous_integration(tmp_path: Path) -> None:
    """A missing part is a failure where CI is set, even if it was announced."""
    (tmp_path / "not-run.txt").write_text("tests/native\n", encoding="utf-8")

    _, is_good = summarize(results(tmp_path, None, PASSED), [], is_ci=True)

    assert not is_good


def test_a_part_that_broke_without_results_is_a_failure(tmp_path: Path) -> None:
    """A build that failed left no file and announced nothing."""
    _, is_good = summarize(results(tmp_path, None, PASSED), [], is_ci=False)

    assert not is_good


def test_failures_besides_tests_are_counted(tmp_path: Path) -> None:
    """A failed lint shows in the last line."""
    line, is_good = summarize(results(tmp_path, PASSED, PASSED), ["lint"], is_ci=True)

    assert ("2 passed, 1 failed, 0 skipped, failed besides tests: lint", False) == (line, is_good)


def test_what_tests_recorded_is_listed(tmp_path: Path) -> None:
    """A line for each test with figures, of pytest's and GoogleTest's making."""
    recorded = '<testcase name="kill"><properties><property name="worst_s" value="0.3"/></properties></testcase>'

    lines = list(recorded_lines(results(tmp_path, recorded, PASSED + recorded)))

    assert ["native-tests: kill: worst_s=0.3", "python-unit: kill: worst_s=0.3"] == lines


def test_every_part_that_make_runs_is_expected() -> None:
    """A part under a new name would otherwise count as one that did not run, or not be missed."""
    makefile = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8")

    parts = set(re.findall(r"--junitxml=\$\(RESULTS\)/([a-z-]+)\.xml", makefile))

    own_targets = {"wheel", "platforms"}  # `make test-wheel` and `make test-platforms` are no parts of `make test`
    assert {"python-unit", "python-jobs", "tensorflow"} == parts - own_targets
    assert parts - own_targets <= set(EXPECTED_PARTS)
