# SPDX-License-Identifier: Apache-2.0
"""Windows and the baseline windows next to them, as a job's results come in their order.

Windows wait until the next baseline window of their job: then both neighbours are known. The waiting ones are kept in
the row of the job's baseline, so that it does not matter how many transactions the results take.
"""

from dataclasses import dataclass, field

from ringtune.service.store.summary_rows import JobSummary

from .canonical import canonical


@dataclass(frozen=True)
class Gains:
    """Sums that windows between two baseline windows add to the columns of `job_summaries` with the same names."""

    compared: int
    log_gain_low_e9: int
    log_gain_high_e9: int


@dataclass
class OpenWindows:
    """A job's newest baseline window, and the windows since then.

    Attributes:
        baseline_e9: ln(median step time in ms) of the newest baseline window, in units of 1e-9; None before the first.
        waiting: Number of windows since then and the sum of their ln, in the same unit, by config digest.
    """

    baseline_e9: int | None = None
    waiting: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def from_row(cls, baseline: JobSummary | None) -> "OpenWindows":
        """Return the contents of a job's baseline row; empty where there is no row yet."""
        return cls() if baseline is None else cls(*baseline.open_parts)

    def text(self) -> str:
        """Return the contents of the row."""
        return canonical([self.baseline_e9, self.waiting])

    def wait(self, config_digest: str, log_step_e9: int) -> None:
        """Keep a window of a config; one that came before any baseline window has no neighbour."""
        if self.baseline_e9 is not None:
            count, total = self.waiting.get(config_digest, (0, 0))
            self.waiting[config_digest] = [count + 1, total + log_step_e9]

    def close(self, log_step_e9: int) -> dict[str, Gains]:
        """Take the next baseline window, and return the additions of the windows before it to their configs' sums."""
        gains = {}
        if self.baseline_e9 is not None:
            faster, slower = sorted((self.baseline_e9, log_step_e9))
            for digest, (count, total) in self.waiting.items():
                gains[digest] = Gains(count, count * faster - total, count * slower - total)
        self.baseline_e9, self.waiting = log_step_e9, {}
        return gains
