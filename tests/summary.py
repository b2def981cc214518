# SPDX-License-Identifier: Apache-2.0
"""Add up the JUnit files of one test run and print one line: passed, failed, not run.

Duty: the last lines of `make test`: parts that could not run, and the counts. With `--recorded`, which `make test-long`
gives, also the numbers that tests recorded; where `seconds.txt` is, as `make test-all` writes it, also the minutes of
each part. It knows JUnit XML and these files alone, and not the tests.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

NOT_RUN = "not-run.txt"  # a line "PART: REASON" for each part that this machine cannot run
SECONDS = "seconds.txt"  # a line "PART SECONDS" for each part of `make test-all`


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


def lacking(results: Path) -> dict[str, str]:
    """Return the parts that could not run on this machine, each with its reason."""
    file = results / NOT_RUN
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return dict(line.split(": ", 1) for line in lines)


def skip_reasons(results: Path) -> Counter[str]:
    """Return the reasons for which tests were skipped, with the number of tests."""
    reasons: Counter[str] = Counter()
    for path in sorted(results.glob("*.xml")):
        for skipped in ET.parse(path).getroot().iter("skipped"):
            reasons[skipped.get("message", "").removeprefix("NOT RUN: ")] += 1
    reasons.pop("", None)
    return reasons


def summarize(results: Path, parts: Sequence[str], failed: Sequence[str] = (), *, is_ci: bool) -> tuple[str, bool]:
    """Return the summary line and whether the run counts as good.

    Args:
        results: Folder with `<part>.xml` and, for parts that this machine cannot run, a line in `not-run.txt`.
        parts: Names of the parts that the run should have.
        failed: Names of steps that ended with an error, each counted as one failure.
        is_ci: Whether a part that did not run is a failure.
    """
    total = Counts(failed=len(failed))
    for path in results.glob("*.xml"):
        total += read_junit(path)
    not_run = [part for part in parts if not (results / f"{part}.xml").is_file()]
    announced = () if is_ci else lacking(results)
    total += Counts(failed=sum(part not in announced for part in not_run))
    line = f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped"
    if failed:
        line += f", ended with an error: {', '.join(failed)}"
    if not_run:
        line += f", not run: {', '.join(not_run)}"
    return line, total.failed == 0


def minutes_lines(results: Path) -> Iterator[str]:
    """Yield a line with the minutes of each part, and one with their sum."""
    file = results / SECONDS
    rows = [line.split() for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    for part, seconds in rows:
        yield f"{int(seconds) / 60:6.1f} min  {part}"
    if rows:
        yield f"{sum(int(seconds) for _, seconds in rows) / 60:6.1f} min  in all"


def recorded_lines(results: Path) -> Iterator[str]:
    """Yield a line for each test that recorded figures, of all parts in the folder."""
    for path in sorted(results.glob("*.xml")):
        for case in ET.parse(path).getroot().iter("testcase"):
            figures = [f"{item.get('name')}={item.get('value')}" for item in case.iter("property")]
            if figures:
                yield f"{path.stem}: {case.get('name')}: {', '.join(figures)}"


def main() -> int:
    """Print the summary; return 0 when no part failed."""
    parser = argparse.ArgumentParser(description="Add up the results of one test run.")
    parser.add_argument("results", type=Path, metavar="FOLDER", help="folder of the JUnit files")
    parser.add_argument("--parts", nargs="*", default=[], help="names of the parts that the run should have")
    parser.add_argument("--failed", nargs="*", default=[], help="names of what ended with an error")
    parser.add_argument("--recorded", action="store_true", help="print the figures that tests recorded, too")
    arguments = parser.parse_args()
    results: Path = arguments.results
    is_ci = os.environ.get("CI", "") not in {"", "0", "false"}
    lines = list(recorded_lines(results)) if arguments.recorded else []
    lines += [f"{count} skipped: {reason}" for reason, count in skip_reasons(results).items()]
    lines += [f"not run: {part}: {reason}" for part, reason in lacking(results).items()]
    lines += minutes_lines(results)
    line, is_good = summarize(results, arguments.parts, arguments.failed, is_ci=is_ci)
    sys.stdout.write("\n".join([*lines, line]) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
