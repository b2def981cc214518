# SPDX-License-Identifier: Apache-2.0
"""Add up the JUnit files of one test run and print one line: passed, failed, not run.

Duty: the last line of `make test`; with `--recorded`, which `make test-long` gives, also what tests recorded. It knows
JUnit XML and the file `not-run.txt`, and nothing of the tests.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

EXPECTED_PARTS = ("native-tests", "python-unit", "python-jobs", "mpi-mpich", "mpi-openmpi", "tensorflow")


@dataclass(frozen=True)
class Counts:
    """Numbers of tests of one part, by result."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def read_junit(path: Path) -> Counts:
    """Count the cases of a JUnit file (pytest's or ctest's)."""
    counts = Counts()
    for case in ET.parse(path).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        if tags & {"failure", "error"}:
            counts += Counts(failed=1)
        elif "skipped" in tags or case.get("status") in {"notrun", "disabled"}:
            counts += Counts(skipped=1)
        else:
            counts += Counts(passed=1)
    return counts


def summarize(results: Path, failed_parts: list[str], *, is_ci: bool) -> tuple[str, bool]:
    """Return the summary line and whether the run counts as good.

    Args:
        results: Folder with `<part>.xml` and, for parts that could not run, a line in `not-run.txt`.
        failed_parts: Names of what failed outside of the tests, each counted as one failure.
        is_ci: Whether a part that did not run is a failure.
    """
    total = Counts(failed=len(failed_parts))
    for path in results.glob("*.xml"):
        total += read_junit(path)
    not_run = [part for part in EXPECTED_PARTS if not (results / f"{part}.xml").is_file()]
    announced = (results / "not-run.txt").is_file()
    if not_run and (is_ci or not announced):
        total += Counts(failed=len(not_run))
    line = f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped"
    if failed_parts:
        line += f", failed besides tests: {', '.join(failed_parts)}"
    if not_run:
        line += f", not run: {', '.join(not_run)}"
    return line, total.failed == 0


def recorded_lines(results: Path) -> Iterator[str]:
    """Yield a line for each test that recorded figures, of all parts in the folder."""
    for path in sorted(results.glob("*.xml")):
        for case in ET.parse(path).getroot().iter("testcase"):
            figures = [f"{item.get('name')}={item.get('value')}" for item in case.iter("property")]
            if figures:
                yield f"{path.stem}: {case.get('name')}: {', '.join(figures)}"


def main() -> int:
    """Print the summary; 0 when nothing failed."""
    parser = argparse.ArgumentParser(description="Add up the results of one test run.")
    parser.add_argument("results", type=Path, metavar="FOLDER", help="folder of the JUnit files")
    parser.add_argument("failed_parts", nargs="*", metavar="FAILED_PART", help="part that failed outside of the tests")
    parser.add_argument("--recorded", action="store_true", help="print the figures that tests recorded, too")
    arguments = parser.parse_args()
    is_ci = os.environ.get("CI", "") not in {"", "0", "false"}
    lines = list(recorded_lines(arguments.results)) if arguments.recorded else []
    line, is_good = summarize(arguments.results, arguments.failed_parts, is_ci=is_ci)
    sys.stdout.write("\n".join([*lines, line]) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
