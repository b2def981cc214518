# SPDX-License-Identifier: Apache-2.0
"""Scores of a launch: the lines of the output that hold a number, and the step time that it stands for.

The tuner compares times. A score that should be high (examples per second, GB/s) becomes 1000 / score, so that a score
per second gives milliseconds. A score that should be low is taken as it is, as if it were milliseconds. Only ratios
matter.
"""

import math
import re
from dataclasses import dataclass
from typing import Protocol

from ringtune.errors import ConfigError

STEP_LINE = r"ringtune: step_ms=([-+0-9.eE]+)"
"""Pattern of the line that `step_report` prints; the default of `--score-regex`."""


class Score(Protocol):
    """Rule by which a command's launches are scored."""

    @property
    def description(self) -> str:
        """Meaning of a step time in words; part of the study's key."""

    @property
    def is_of_lines(self) -> bool:
        """True where lines hold the score; otherwise the whole launch is one step."""

    def times_ms(self, line: str) -> list[float]:
        """Return the step times in a line of the command's output, milliseconds, above zero."""

    def unusable(self, line: str) -> str | None:
        """Return the last score in a line that is no finite number above zero, if there is one."""

    def shown(self, step_ms: float) -> str:
        """Return a step time as people know it: as the score that they print, or as a time."""


@dataclass(frozen=True)
class LineScore:
    """Numbers that a pattern finds in the command's output.

    Attributes:
        pattern: Regular expression with one group, around the number.
        higher_is_better: True where a higher score is better.
    """

    pattern: re.Pattern[str]
    higher_is_better: bool = False
    is_of_lines = True

    @classmethod
    def of(cls, text: str, *, higher_is_better: bool) -> "LineScore":
        """Return the score of a pattern's text.

        Raises:
            ConfigError: If it is no regular expression, or has not one group.
        """
        return cls(one_group(text, "--score-regex"), higher_is_better)

    @property
    def description(self) -> str:
        """Meaning of a step time in words."""
        unit = "1000 / score" if self.higher_is_better else "the score, taken as ms"
        return f"{unit}, of {self.pattern.pattern!r}"

    def unusable(self, line: str) -> str | None:
        """Return the last score in a line that is no finite number above zero, if there is one."""
        found = [match[1] for match in self.pattern.finditer(line) if match[1] is not None]
        return next((text for text in reversed(found) if _number(text) is None), None)

    def times_ms(self, line: str) -> list[float]:
        """Return the step times in a line; only finite numbers above zero count."""
        numbers = [_number(match[1]) for match in self.pattern.finditer(line)]
        usable = [number for number in numbers if number is not None]
        return [1e3 / number for number in usable] if self.higher_is_better else usable

    def shown(self, step_ms: float) -> str:
        """Return a step time as the score that stands for it; that of `step_report` is a time."""
        if self.pattern.pattern == STEP_LINE and not self.higher_is_better:
            return step_text(step_ms)
        return f"score {1e3 / step_ms if self.higher_is_better else step_ms:.4g}"


@dataclass(frozen=True)
class WallScore:
    """Duration of the whole launch."""

    description = "ms from the launch to its end"
    is_of_lines = False

    def times_ms(self, line: str) -> list[float]:
        """Return no time: lines are not read."""
        del line
        return []

    def unusable(self, line: str) -> None:
        """Return None: lines are not read."""
        del line

    def shown(self, step_ms: float) -> str:
        """Return the duration."""
        return step_text(step_ms)


def step_text(step_ms: float) -> str:
    """Return a step time, such as "12.5 ms"."""
    return f"{step_ms:.4g} ms"


def one_group(text: str, option: str) -> re.Pattern[str]:
    """Return the pattern of an option, which has one group.

    Raises:
        ConfigError: If it is no regular expression, or has not one group.
    """
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigError(f"{option} {text!r} is no regular expression: {error}") from error
    if pattern.groups != 1:
        raise ConfigError(
            f"{option} {text!r} has {pattern.groups} groups; put one group (...) around the number, and use "
            "(?:...) for others"
        )
    return pattern


def _number(text: str | None) -> float | None:
    """Return a finite number above zero whose inverse is finite too, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 and math.isfinite(1e3 / number) else None
