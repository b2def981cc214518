# SPDX-License-Identifier: Apache-2.0
"""The value types of a report: findings in sections, and problems with their remedies."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FoundProblem:
    """Something that is wrong here.

    Attributes:
        what: The fault, with the values.
        remedy: Advice, as one sentence.
    """

    what: str
    remedy: str


@dataclass(frozen=True)
class DoctorSection:
    """Findings that belong together.

    Attributes:
        title: A heading.
        findings: (name, value) pairs in the order in which they are shown; a name may occur twice.
        problems: Those found on the way.
    """

    title: str
    findings: Sequence[tuple[str, str]]
    problems: Sequence[FoundProblem] = field(default=())


def bytes_text(size: float) -> str:
    """Return a number of bytes for people, such as `1.5 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
