# SPDX-License-Identifier: Apache-2.0
"""Ask the advisory databases about every package of the locks, and say of which no database was heard.

Duty: `make audit`. pip-audit reports "no known vulnerabilities" and success also where a database knew none of the
packages, as behind a mirror that has no advisories: here that counts as not asked. The exit status is 0 where every
package was asked about and none has a known vulnerability, 1 where one has, and otherwise 2.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.house.lock_files import FOLDER, Pin, pins_of
from tests.house.source_tree import REPOSITORY

DATABASES = ("pypi", "osv")
"""In this order: the second is asked about the packages that the first did not know."""
TIMEOUT_S = 600
"""Limit for one run of pip-audit; a whole lock takes half a minute."""
Package = tuple[str, str]  # name, version


@dataclass(frozen=True)
class Answers:
    """The answers of the advisory databases."""

    asked: frozenset[Package]
    known: Mapping[Package, tuple[str, ...]]  # the advisories of those that have any
    silent: tuple[str, ...] = ()  # databases that could not be reached, with the reason


def rounds(pins: Iterable[Pin]) -> Iterator[dict[str, str]]:
    """Yield every (name, version) once, in lists that have no name twice: a lock may have a version for each Python."""
    left = sorted({(pin.name, pin.version) for pin in pins})
    while left:
        chosen = dict(left)
        yield chosen
        left = [package for package in left if package not in chosen.items()]


def answers_in(report: str) -> Answers:
    """Return the answers in pip-audit's JSON; a package with a reason for being skipped was not asked about."""
    audited = [entry for entry in json.loads(report)["dependencies"] if "skip_reason" not in entry]
    known = {
        (entry["name"], entry["version"]): tuple(advisory["id"] for advisory in entry["vulns"])
        for entry in audited
        if entry["vulns"]
    }
    return Answers(frozenset((entry["name"], entry["version"]) for entry in audited), known)


def ask(packages: Mapping[str, str], database: str) -> Answers:
    """Ask one database about packages."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{name}=={version}\n" for name, version in packages.items()))
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner", "off"]
        command += ["--format", "json", "--vulnerability-service", database, "--requirement", file.name]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if not run.stdout.startswith("{"):
        reason = (run.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Answers(frozenset(), {}, (f"{database}: {reason}",))
    return answers_in(run.stdout)


def ask_all(pins: Iterable[Pin]) -> Answers:
    """Ask the databases in turn about all packages."""
    total = Answers(frozenset(), {})
    for packages in rounds(pins):
        for database in DATABASES:
            left = {name: version for name, version in packages.items() if (name, version) not in total.asked}
            if left:
                new = ask(left, database)
                total = Answers(total.asked | new.asked, {**total.known, **new.known}, (*total.silent, *new.silent))
    return total


def verdict(packages: frozenset[Package], answers: Answers) -> tuple[str, int]:
    """Return the report's lines and the exit status."""
    lines = [
        f"VULNERABLE: {name} {version}: {', '.join(ids)}" for (name, version), ids in sorted(answers.known.items())
    ]
    missing = packages - answers.asked
    if missing:
        lines += [f"database not reached: {reason}" for reason in dict.fromkeys(answers.silent)]
        lines.append(
            f"NOT ASKED: no database answered for {len(missing)} of {len(packages)} packages: nothing is known of them."
            f" Run 'make audit' where pip-audit reaches one of: {', '.join(DATABASES)}"
        )
    lines.append(f"{len(answers.asked)} of {len(packages)} packages asked about, {len(answers.known)} vulnerable")
    return "\n".join(lines), 1 if answers.known else 2 if missing else 0


def main() -> int:
    """Audit all locks of this repository."""
    pins = [pin for path in sorted((REPOSITORY / FOLDER).glob("*.txt")) for pin in _locked(path)]
    text, status = verdict(frozenset((pin.name, pin.version) for pin in pins), ask_all(pins))
    sys.stdout.write(text + "\n")
    return status


def _locked(path: Path) -> list[Pin]:
    return [pin for pin in pins_of(path.read_text(encoding="utf-8")) if pin.has_hash]


if __name__ == "__main__":
    sys.exit(main())
