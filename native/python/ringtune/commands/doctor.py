# SPDX-License-Identifier: Apache-2.0
"""The report of `ringtune doctor`: facts that decide whether, and how fast, a job runs here, and the problems found."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ringtune.commands.findings.comparisons import examine_comparisons
from ringtune.commands.findings.finding import DoctorSection, FoundProblem
from ringtune.commands.findings.machine import examine_engine, examine_gpus, examine_machine, examine_packages
from ringtune.commands.findings.service import examine_service
from ringtune.commands.findings.storage import examine_storage
from ringtune.errors import ConfigError
from ringtune.identity.fingerprints import hardware_facts, hardware_fingerprint, machine_facts
from ringtune.identity.gpu_facts import find_gpus
from ringtune.settings.settings import Settings

JSON_SCHEMA = 1


@dataclass(frozen=True)
class DoctorReport:
    """Everything that was found.

    Attributes:
        sections: In the order in which they are shown.
    """

    sections: Sequence[DoctorSection]

    @property
    def problems(self) -> list[FoundProblem]:
        """The problems of all sections."""
        return [problem for section in self.sections for problem in section.problems]

    def to_json(self) -> dict[str, Any]:
        """Return the report for machines: findings by section, and problems."""
        sections = [
            {"title": section.title, "findings": [{"name": name, "value": value} for name, value in section.findings]}
            for section in self.sections
        ]
        return {
            "schema": JSON_SCHEMA,
            "sections": sections,
            "problems": [asdict(problem) for problem in self.problems],
        }

    def lines(self) -> list[str]:
        """Return the report for people."""
        width = max(len(name) for section in self.sections for name, _ in section.findings)
        found: list[str] = []
        for section in self.sections:
            rows = [f"  {name:<{width}}  {value}" for name, value in section.findings]
            found += [section.title, *rows, ""]
        count = len(self.problems)
        found.append(f"{count} problem{'s' if count > 1 else ''}:" if count else "no problem was found")
        for problem in self.problems:
            found += [f"  - {problem.what}", f"    To do: {problem.remedy}"]
        return found


def examine(environ: Mapping[str, str]) -> DoctorReport:
    """Return the findings and problems of this machine.

    Args:
        environ: The environment: settings, the service's place, `XDG_CACHE_HOME`.
    """
    hardware = hardware_fingerprint(hardware_facts([machine_facts()], "shm"), environ.get("RINGTUNE_HARDWARE"))
    return DoctorReport(
        (
            examine_machine(),
            examine_gpus(),
            examine_engine(),
            _examine_settings(environ),
            examine_service(environ),
            examine_storage(environ),
            examine_comparisons(environ, hardware),
            examine_packages(),
        )
    )


def fingerprint_report(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the facts of this machine and the key of a job that runs on it alone.

    Args:
        environ: For `RINGTUNE_HARDWARE`, which overrides the facts.
    """
    override = environ.get("RINGTUNE_HARDWARE")
    hardware = hardware_facts([machine_facts()], "shm")
    facts = [(name, str(value)) for name, value in hardware[0].items()]
    if override is not None:
        facts = [("RINGTUNE_HARDWARE", override)]
    return [*facts, ("hardware", hardware_fingerprint(hardware, override)), *_gpu_findings(override)]


def _gpu_findings(override: str | None) -> list[tuple[str, str]]:
    """Return the GPUs, and the key of a job whose tensors are on them; empty without GPUs."""
    gpus = find_gpus()
    if not gpus.names:
        return []
    on_gpus = hardware_facts([machine_facts(gpus)], "shm")
    found = [(name, str(value)) for name, value in gpus.facts().items()]
    return [*found, ("driver", str(gpus.driver)), ("hardware (GPUs)", hardware_fingerprint(on_gpus, override))]


def _examine_settings(environ: Mapping[str, str]) -> DoctorSection:
    """Return which variables of ringtune's are set, and whether a job would start with them."""
    names = sorted(name for name in environ if name.startswith(("AUTOTUNE", "RINGTUNE_", "HOROVOD_")))
    set_here = ", ".join(names) or "none: a job runs by the defaults"
    try:
        Settings.from_environment(environ, _algorithms())
    except ConfigError as error:
        remedy = "correct or unset the variable: a job would stop at once."
        return DoctorSection("settings", (("variables", set_here),), (FoundProblem(str(error), remedy),))
    return DoctorSection("settings", (("variables", set_here),))


def _algorithms() -> Sequence[str]:
    try:
        from ringtune._engine import allreduce_algorithms  # noqa: PLC0415  (its absence is a finding of its own)
    except ImportError:
        return ()
    return allreduce_algorithms()
