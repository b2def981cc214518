# SPDX-License-Identifier: Apache-2.0
"""One launch of a command: its environment, its output read as it comes, its end by itself or by a limit."""

import shlex
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum

from ringtune.errors import ConfigError
from ringtune.system.child_process import GRACE_S, WITH_STDOUT, Child, StopRequested, Tie
from ringtune.tuner import is_over_limit

from .results import MAX_RESULTS, STEP_REPORT_RESULTS, ResultPattern
from .scores import Score
from .stop_request import StopRequest

SLOT_VARIABLE = "RINGTUNE_LAUNCH_SLOT"
"""Set for each launch: its place among those at the same time, from 0, to choose a port or a GPU by."""
TAIL_LINES = 20
"""Last lines of the output that are kept for people."""
MAX_LAST_LINE = 300
"""Characters of a failed command's last line that verdict and table show."""
MAX_STEPS = 100_000
"""Most step times of a launch that are kept; further ones change no median."""
COLD_STEPS = 3
"""First steps of a launch that cannot cut it: caches are cold."""
MOST_STEPS_BEFORE_CUT = 200
"""Warm steps after which a launch is left to end: it is nearly done."""


class LaunchEnding(Enum):
    """Reason of a launch's end."""

    BY_ITSELF = "by itself"
    TIMED_OUT = "timed out"
    CUT = "cut, its steps ran over the limit"
    STOPPED = "stopped by a signal"


@dataclass(frozen=True)
class LaunchLimits:
    """Limits of a launch, beyond which it is ended early.

    Attributes:
        timeout_s: Limit of the whole launch, seconds.
        step_ms: Limit of a step, milliseconds; steps over it cut the launch. 0 never cuts.
    """

    timeout_s: float
    step_ms: float = 0.0


@dataclass(frozen=True)
class Launched:
    """Outcome of a launch.

    Attributes:
        step_ms: Step times, milliseconds, in their order.
        ending: Reason of its end.
        exit_code: Exit code of the command; 128 + the signal if it was killed.
        seconds: Duration from the launch to its end.
        tail: Last lines of its output.
        results: The numbers that it printed as results, in their order.
        complaint: Fault of its results in words; empty where there is none.
        unusable: The last score that was no number above zero; None where there is none.
    """

    step_ms: tuple[float, ...]
    ending: LaunchEnding
    exit_code: int
    seconds: float
    tail: tuple[str, ...]
    results: tuple[float, ...] = ()
    complaint: str = ""
    unusable: str | None = None

    @property
    def failure(self) -> str:
        """Reason why it does not count, in words; empty where it does."""
        if self.ending is LaunchEnding.TIMED_OUT:
            return f"did not end within {self.seconds:.3g} s"
        if self.ending is LaunchEnding.STOPPED:
            return "was stopped"
        if self.ending is LaunchEnding.BY_ITSELF and self.exit_code:
            return f"failed with exit code {self.exit_code} after {self.seconds:.3g} s"
        if not self.step_ms and self.unusable is not None:
            return f"printed the score {self.unusable!r}, which is no number above zero"
        return self.complaint if self.step_ms else "printed no score"

    @property
    def is_broken(self) -> bool:
        """True if the command itself failed: not for wrong results, and not where it took too long."""
        return self.ending is LaunchEnding.BY_ITSELF and bool(self.exit_code or not self.step_ms)

    @property
    def failure_with_words(self) -> str:
        """Reason why it does not count, with the last line of its output if the command itself failed."""
        if not self.failure or self.failure == self.complaint or not self.tail:
            return self.failure
        return f"{self.failure}: {self.tail[-1][:MAX_LAST_LINE]}"


@dataclass
class _Output:
    """Output of a command so far."""

    score: Score
    pattern: ResultPattern
    step_ms: list[float] = field(default_factory=list)
    results: list[float] = field(default_factory=list)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    unusable: str | None = None

    def is_over(self, limit_ms: float) -> bool:
        warm = self.step_ms[COLD_STEPS : COLD_STEPS + MOST_STEPS_BEFORE_CUT]
        return len(warm) < MOST_STEPS_BEFORE_CUT and is_over_limit(warm, limit_ms)

    def take(self, line: bytes) -> None:
        text = line.decode("utf-8", "backslashreplace").rstrip("\r")
        if text.strip():
            self.tail.append(text)
        self.unusable = self.score.unusable(text) or self.unusable
        self.step_ms += self.score.times_ms(text)[: MAX_STEPS - len(self.step_ms)]
        self.results += self.pattern.results_in(text)[: MAX_RESULTS - len(self.results)]


class CommandLauncher:
    """Launches one command again and again, from one thread or several."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        score: Score,
        stop: StopRequest,
        *,
        pattern: ResultPattern = STEP_REPORT_RESULTS,
    ) -> None:
        """Prepare; no process is started.

        Args:
            command: Program and arguments.
            environ: Environment of every launch.
            score: Rule by which a launch is scored.
            stop: Ends all launches that are running.
            pattern: Finds the results in the output.
        """
        self.command = tuple(command)
        self._environ = dict(environ)
        self._score = score
        self._stop = stop
        self._pattern = pattern

    @property
    def is_stopped(self) -> bool:
        """True once the user wants the end."""
        return self._stop.signal_number != 0

    def launch(
        self, variables: Mapping[str, str], limits: LaunchLimits, command: Sequence[str] | None = None
    ) -> Launched:
        """Launch the command and wait for its end; no process of it is left then.

        Args:
            variables: Set on top of the environment.
            limits: Limits of this launch.
            command: Program and arguments of this launch; the user's by default.

        Raises:
            ConfigError: If the system starts no more processes.
        """
        begin_s = time.monotonic()
        child = self._started(variables, self.command if command is None else command)
        output = _Output(self._score, self._pattern)
        try:
            ending = self._follow(child, output, begin_s, limits)
        finally:
            exit_code = _end(child, output)
        seconds = time.monotonic() - begin_s
        steps = tuple(output.step_ms)
        if not self._score.is_of_lines:
            ending, steps = _whole(ending, seconds, limits)
        texts = tuple(output.tail), tuple(output.results)
        return Launched(steps, ending, exit_code, seconds, *texts, unusable=output.unusable)

    def _started(self, variables: Mapping[str, str], command: Sequence[str]) -> Child:
        try:
            return Child(command, {**self._environ, **variables}, stderr=WITH_STDOUT, tie=Tie.DESCENDANTS)
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be launched ({error}); check the limits of processes") from error

    def _follow(self, child: Child, output: _Output, begin_s: float, limits: LaunchLimits) -> LaunchEnding:
        """Read until the end of the output or a limit."""
        end_s = begin_s + limits.timeout_s
        if limits.step_ms and not self._score.is_of_lines:  # the whole launch is one step
            end_s = begin_s + min(limits.timeout_s, limits.step_ms * 1e-3)
        try:
            while (line := child.next_line(end_s - time.monotonic(), self._stop.descriptor)) is not None:
                output.take(line)
                if output.is_over(limits.step_ms):
                    return LaunchEnding.CUT
        except TimeoutError:
            return LaunchEnding.TIMED_OUT
        except StopRequested:
            return LaunchEnding.STOPPED
        return LaunchEnding.BY_ITSELF


def failure_text(command: Sequence[str], launched: Launched) -> str:
    """Return the reason why a command gives no time without any setting, and its last lines."""
    reason = launched.failure
    if launched.complaint:
        reason += (
            ". Print results that depend on no random number and no order of threads, or give a --result-tolerance "
            "above the spread"
        )
    elif not launched.exit_code and not launched.step_ms:
        reason += "; let it print lines such as 'ringtune: step_ms=12.3', or use --score-regex or --score wall"
    last_lines = "\n".join(["Its last lines:", *launched.tail]) if launched.tail else "It printed nothing."
    return f"without anything being set, {shlex.join(command)} {reason}. {last_lines}"


def neighbours_text(command: Sequence[str], launched: Launched, failed: int, at_once: int) -> str:
    """Return the reason why a command that works alone cannot run beside itself, and the remedy.

    Args:
        command: Program and arguments.
        launched: The first launch that failed.
        failed: Number of failed launches.
        at_once: Number of launches at the same time.
    """
    return (
        f"--parallel {at_once} is not possible: alone {shlex.join(command)} works, and {failed} of {at_once} launches "
        f"at once gave: {launched.failure_with_words}. Launches may meet in a port, a file or a GPU: let the command "
        f"choose its own by {SLOT_VARIABLE} (0 to {at_once - 1}), or use --parallel 1"
    )


def _whole(ending: LaunchEnding, seconds: float, limits: LaunchLimits) -> tuple[LaunchEnding, tuple[float, ...]]:
    """Return the ending and the one step of a launch that is scored as a whole.

    One that ran over the step limit was at least that slow: the limit is its time, and it counts.
    """
    if ending is LaunchEnding.TIMED_OUT and limits.step_ms and limits.step_ms * 1e-3 < limits.timeout_s:
        return LaunchEnding.CUT, (limits.step_ms,)
    return ending, (seconds * 1e3,)


def _end(child: Child, output: _Output) -> int:
    """Ask a command that still runs to end, read the rest, and return the exit code."""
    if child.exit_code is None:
        child.send_signal(signal.SIGTERM)
        end_s = time.monotonic() + GRACE_S
        with suppress(TimeoutError):
            while (line := child.next_line(end_s - time.monotonic())) is not None:
                output.take(line)
    return child.end(0)
