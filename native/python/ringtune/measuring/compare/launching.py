# SPDX-License-Identifier: Apache-2.0
"""One run of one arm: a job of `ringtune run`, watched by the records among its output, then ended."""

import math
import re
import secrets
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringtune.errors import RingtuneError
from ringtune.settings.variables import SUBSTITUTED_TORCH_BACKENDS, TORCH_BACKEND_NAME
from ringtune.system.child_process import WITH_STDOUT, Child, Tie

from .messages import Arm, RunOrder, record_in
from .request import CompareRequest
from .script_facts import FOR_GROUPS

END_S = 60.0  # limit from the last step to the job's end, which may save a model on its way
TAIL_LINES = 30
LINE_BYTES = 2000
NO_PREFIX = "--no-prefix-output"
FIRST_TO_FAIL = re.compile(r"ringtune run: rank (\d+) of (\d+) \(.*the first to fail")
RANK_MODULE = "ringtune.measuring.compare.rank_program"
ARM_NAMES: Mapping[Arm, str] = {"ddp": "PyTorch alone", "ringtune": "ringtune"}
"""Names of the arms before it is known which part of PyTorch the script uses."""


class ComparisonError(RingtuneError):
    """The two arms cannot be compared; the message has the reason and the remedy."""


@dataclass(frozen=True)
class Run:
    """The measurements of a run.

    Attributes:
        arm: Engine that reduced the gradients.
        steps: Steps that count.
        seconds: Duration of all of them together.
        did_script_end: Whether the script came to its own end before enough steps.
        facts: Facts of the script.
    """

    arm: Arm
    steps: int
    seconds: float
    did_script_end: bool
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def serves_groups(self) -> bool:
        """True if the script can be compared by its process groups alone."""
        return self.facts.get("written_for") == FOR_GROUPS

    @property
    def name(self) -> str:
        """The arm's name for people."""
        return self.arm if self.arm == "ringtune" else "Gloo" if self.serves_groups else "DDP"

    @property
    def steps_per_s(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


@dataclass(frozen=True)
class StoreAddress:
    """The place at which rank 0 serves torch's store.

    Attributes:
        address: Its host, as all hosts reach it.
        find_port: Returns a port there.
    """

    address: str
    find_port: Callable[[], int]


class Runs:
    """Starts runs of a request, one at a time.

    Attributes:
        serves_groups: Whether the engine's arm runs the script's process groups, in the place of Gloo; False: its
            gradients alone. The first run under PyTorch alone shows which of them the script needs.
    """

    def __init__(self, request: CompareRequest, environ: Mapping[str, str], place: StoreAddress) -> None:
        """Prepare, without starting a process.

        Args:
            request: The checked request.
            environ: Environment of the jobs.
            place: Address of torch's rank 0.
        """
        self._request = request
        self._environ = {**environ, **request.sent}
        self._place = place
        self.serves_groups = request.serves_groups

    def run(self, arm: Arm, steps: int, on_progress: Callable[[int], None]) -> Run:
        """Run an arm once, in fresh processes.

        Args:
            arm: Engine that reduces the gradients.
            steps: Steps that count.
            on_progress: Function that gets the number of steps made, warm-up included.

        Raises:
            ComparisonError: If the script cannot be compared, fails, or makes too few steps.
        """
        request = self._request
        order = RunOrder(
            token=secrets.token_hex(8),
            arm=arm,
            warmup_steps=request.warmup_steps,
            steps=steps,
            master_address=self._place.address,
            master_port=self._place.find_port(),
            is_module=request.program_of(arm).is_module,
            serves_groups=self.serves_groups,
        )
        in_gloos_place = {TORCH_BACKEND_NAME: SUBSTITUTED_TORCH_BACKENDS[0]}
        environ = {**self._environ, **(in_gloos_place if self.serves_groups and arm == "ringtune" else {})}
        with (
            tempfile.TemporaryDirectory(prefix="ringtune-compare-") as folder,
            Child(self._command(order, folder), environ, stderr=WITH_STDOUT, tie=Tie.CHILD, has_session=False) as child,
        ):
            watch = _Watch(child, order, request.silence_s, on_progress, output=Path(folder))
            measured = watch.to_end()
        return checked_run(measured, order, watch.tail)

    def _command(self, order: RunOrder, folder: str) -> list[str]:
        request = self._request
        program = request.program_of(order.arm)
        launch = ["-m", "ringtune.cli", "run", "-np", str(request.ranks), *request.launch_options]
        launch += [NO_PREFIX, "--output-filename", folder]
        rank = [*program.interpreter, "-m", RANK_MODULE, order.to_argument(), program.name, *program.arguments]
        return [sys.executable, *launch, *rank]


class _Watch:
    """Reads a job's output until it has measured, failed, or been silent for too long."""

    def __init__(
        self,
        child: Child,
        order: RunOrder,
        silence_s: float,
        on_progress: Callable[[int], None],
        *,
        output: Path,
    ) -> None:
        self._child = child
        self._output_folder = output
        self._order = order
        self._silence_s = silence_s
        self._on_progress = on_progress
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._measured: Mapping[str, Any] | None = None
        self._deadline_s = time.monotonic() + silence_s

    @property
    def tail(self) -> str:
        """The last lines that the script wrote."""
        return "\n".join(self._lines)

    def _failure_text(self) -> str:
        """Return the last lines of the rank that failed first, or of all ranks where no rank is to blame."""
        last = self._lines[-1] if self._lines else ""
        found = FIRST_TO_FAIL.match(last)
        if found is None:
            return f"Its last lines:\n{self.tail}"
        width = len(str(int(found[2]) - 1))
        folder = self._output_folder / f"rank.{int(found[1]):0{width}d}"
        lines: deque[str] = deque(maxlen=TAIL_LINES)
        for name in ("stdout", "stderr"):
            with suppress(OSError), (folder / name).open("rb") as file:
                shown = (line for line in file if record_in(line, self._order.token) is None)
                lines.extend(_plain_lines(shown))
        return f"The last lines of rank {found[1]}, the first to fail:\n" + "\n".join([*lines, last])

    def to_end(self) -> Mapping[str, Any]:
        """Return the record of the measurement, once the job has ended.

        Raises:
            ComparisonError: If it has made no measurement.
        """
        while (line := self._next_line()) is not None:
            self._take(line)
        self._child.ends_within(END_S)
        if self._measured is None:
            code = self._child.exit_code
            name = ARM_NAMES[self._order.arm]
            how = f"exit code {code}" if code else "without a word of rank 0"
            raise ComparisonError(
                f"the script failed under {name} ({how}); run it by itself first. {self._failure_text()}"
            )
        return self._measured

    def _next_line(self) -> bytes | None:
        """Return the next line of the job; None at its end, which a job that has measured need not reach by itself."""
        try:
            return self._child.next_line(self._deadline_s - time.monotonic())
        except TimeoutError as error:
            if self._measured is not None:
                return None
            raise ComparisonError(
                f"no optimizer step under {ARM_NAMES[self._order.arm]} within {self._silence_s:g} s; raise "
                f"--timeout if the script needs longer to begin. Its last lines:\n{self.tail}"
            ) from error

    def _take(self, line: bytes) -> None:
        record = record_in(line, self._order.token)
        if record is None:
            self._lines.extend(_plain_lines([line]))
            return
        kind = record.get("kind")
        if kind == "refusal":
            raise ComparisonError(f"this cannot be run both ways: {record.get('reason')}")
        self._deadline_s = time.monotonic() + (END_S if kind == "measured" else self._silence_s)
        if kind == "measured":
            self._measured = record
        elif kind == "progress":
            self._on_progress(int(record.get("steps", 0)))


def _plain_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield lines of output as people may see them, without the empty ones."""
    for line in lines:
        text = line[:LINE_BYTES].decode("utf-8", "replace").rstrip("\r\n")
        if text.strip():
            yield "".join(c if c.isprintable() else " " for c in text)


def checked_run(measured: Mapping[str, Any], order: RunOrder, tail: str) -> Run:
    """Return the measurement as a run, if it is a number of steps and a time.

    Raises:
        ComparisonError: If the script made too few steps, or the time is none.
    """
    steps, seconds = measured.get("steps"), measured.get("seconds")
    name = ARM_NAMES[order.arm]
    if not isinstance(steps, int) or steps < 1:
        raise ComparisonError(
            f"the script ended under {name} before {order.warmup_steps + 1} steps of a torch optimizer; give it more "
            f"to do (epochs, data), or lower --warmup-steps. Scripts without a torch optimizer, such as those of "
            f"TensorFlow, cannot be compared: use --gradients FILE. Its last lines:\n{tail}"
        )
    if not isinstance(seconds, int | float) or not math.isfinite(seconds) or seconds <= 0:
        raise ComparisonError(
            f"{steps} step{'s' if steps > 1 else ''} under {name} took {seconds!r} s by the clock, which is no time "
            "to compare; give the script more to do, or lower --warmup-steps"
        )
    return Run(order.arm, steps, float(seconds), bool(measured.get("did_script_end")), measured.get("facts") or {})
