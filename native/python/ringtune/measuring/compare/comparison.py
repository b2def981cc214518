# SPDX-License-Identifier: Apache-2.0
"""A whole comparison: a rehearsal of each arm, then pairs of runs in alternating order, and the verdict.

The rehearsal shows that both arms run, and about how long a step takes. The two runs of a pair make the same number of
steps, by the step times of all runs before it. A first pair that was much shorter than asked for is made again.
"""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ringtune.system.counts import counted

from .keeping import ComparisonStore, KeptComparison
from .launching import ARM_NAMES, ComparisonError, Run, Runs, StoreAddress
from .messages import ARMS, Arm
from .request import MAX_STEPS, CompareRequest, arm_environment, left_out
from .verdict import Verdict

REHEARSAL_STEPS = 10
MIN_STEPS = 10
"""Fewer steps than these are no evidence, however long they take."""
MIN_SCRIPT_STEPS = 2
SHORTEST_SHARE = 0.5  # least share of the seconds asked for; a process begins slowly, and ten steps are no plan


@dataclass(frozen=True)
class FinishedComparison:
    """A finished comparison.

    Attributes:
        request: The checked request.
        pairs: Runs of DDP and of ringtune.
        verdict: Verdict of the pairs.
        not_in_arms: Variables that were set and that no run got.
    """

    request: CompareRequest
    pairs: Sequence[tuple[Run, Run]]
    verdict: Verdict
    not_in_arms: Sequence[str]

    @property
    def facts(self) -> Mapping[str, object]:
        """The script's facts, as its first run under DDP showed them."""
        return self.pairs[0][0].facts


def run_comparison(
    request: CompareRequest, environ: Mapping[str, str], place: StoreAddress, console: Console
) -> FinishedComparison:
    """Run both arms and return the finished comparison.

    Args:
        request: The checked request.
        environ: This process's environment.
        place: Address of torch's rank 0.
        console: Console for progress.

    Raises:
        ComparisonError: If the arms cannot be compared.
    """
    runs = Runs(request, arm_environment(environ), place)
    with _signals_end_runs(), _progress(console) as progress:
        display = _Display(progress, request)
        steps = _rehearse(runs, request, display)
        first = _run_pair(runs, display, 0, steps)
        if _is_far_too_short(request, first):
            display.say("the rehearsal promised longer steps: this pair does not count, and is made again")
            first = _run_pair(runs, display, 0, planned_steps(request, [first]))
        pairs = [first]
        for number in range(1, request.pairs):
            pairs.append(_run_pair(runs, display, number, planned_steps(request, pairs)))
    return FinishedComparison(request, pairs, Verdict.of(pairs), left_out(environ))


def keep(comparison: FinishedComparison, environ: Mapping[str, str], hardware: str, version: str) -> None:
    """Keep a comparison for `ringtune doctor`; OSError where it cannot be written.

    Args:
        comparison: Finished.
        environ: For the user's cache folder.
        hardware: Fingerprint of this machine.
        version: Version of ringtune.
    """
    request, verdict = comparison.request, comparison.verdict
    entry = KeptComparison(
        unix_time_s=time.time(),
        hardware=hardware,
        title=request.title[:100],
        ranks=request.ranks,
        hosts=request.hosts or "",
        pairs=len(comparison.pairs),
        ddp_steps_per_s=verdict.ddp_steps_per_s,
        ringtune_steps_per_s=verdict.ringtune_steps_per_s,
        ratio=verdict.ratio,
        low=verdict.low,
        high=verdict.high,
        version=version,
        baseline=comparison.pairs[0][0].name,
    )
    ComparisonStore(environ).keep(entry)


def _rehearse(runs: Runs, request: CompareRequest, display: "_Display") -> int:
    """Run each arm for a few steps and return the steps of the first pair's runs.

    Raises:
        ComparisonError: If the script makes too few steps, or ringtune's engine has no work in its arm.
    """
    found = []
    for arm in ARMS:
        found.append(display.show(runs, arm, request.steps or REHEARSAL_STEPS, "rehearsal"))
        runs.serves_groups = found[0].serves_groups
    for run in found:
        if run.steps < MIN_SCRIPT_STEPS:
            raise ComparisonError(
                f"the script makes one step after {request.warmup_steps} of warm-up, which is too few to compare; "
                "give it more to do (epochs, data), or lower --warmup-steps"
            )
    if runs.serves_groups and not found[1].facts.get("has_engine_worked"):
        raise ComparisonError(
            "ringtune's engine moved nothing in its arm, so that there is nothing to compare; check that the script "
            "communicates by torch.distributed, that its tensors are on the CPU, and that "
            "TORCH_DEVICE_BACKEND_AUTOLOAD is not 0"
        )
    if not runs.serves_groups and not found[1].facts.get("engine_bytes"):
        raise ComparisonError(
            "ringtune's engine reduced nothing in its arm, so that there is nothing to compare; check that the script "
            "trains with gradient synchronization (no_sync() is left at each optimizer step)"
        )
    return planned_steps(request, [(found[0], found[1])])


def _run_pair(runs: Runs, display: "_Display", number: int, steps: int) -> tuple[Run, Run]:
    """Run both arms for so many steps, the first one in turn, and return the runs of DDP and of ringtune."""
    order: tuple[Arm, ...] = ARMS if number % 2 == 0 else ARMS[::-1]
    found = {arm: display.show(runs, arm, steps, f"pair {number + 1} of {display.pairs}") for arm in order}
    _check_same_steps(found["ddp"], found["ringtune"])
    return found["ddp"], found["ringtune"]


def planned_steps(request: CompareRequest, measured: Sequence[tuple[Run, Run]]) -> int:
    """Return how many steps the next runs make, by the step time of the slower arm over all that was measured.

    One run is little evidence on a machine that does other work at times: each counts by its duration.

    Args:
        request: The checked request.
        measured: Runs of DDP and of ringtune.
    """
    if request.steps is not None:
        return request.steps
    arms = ([ddp for ddp, _ in measured], [ringtune for _, ringtune in measured])
    step_s = max(sum(run.seconds for run in arm) / sum(run.steps for run in arm) for arm in arms)
    return round(min(max(request.seconds / step_s, MIN_STEPS), MAX_STEPS))


def _is_far_too_short(request: CompareRequest, pair: tuple[Run, Run]) -> bool:
    """Return whether the longer run of a pair was less than half as long as asked for, and could have been longer."""
    could_be_longer = request.steps is None and not any(run.did_script_end for run in pair)
    return could_be_longer and max(run.seconds for run in pair) < SHORTEST_SHARE * request.seconds


def _check_same_steps(ddp: Run, ringtune: Run) -> None:
    if ddp.steps != ringtune.steps:
        raise ComparisonError(
            f"the script made {ddp.steps} steps under PyTorch alone and {ringtune.steps} under ringtune: it ends by "
            "the clock or by chance; let it run for longer than --seconds, or give --steps"
        )


@contextmanager
def _signals_end_runs() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exit that ends the run in progress first."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True)


class _Display:
    """Progress for people: a bar on a terminal, and a line for every run."""

    def __init__(self, progress: Progress, request: CompareRequest) -> None:
        self._progress = progress
        self._request = request
        self._task = progress.add_task("", total=2 * (request.pairs + 1), note="")

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return self._request.pairs

    def say(self, text: str) -> None:
        """Show a line."""
        self._progress.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def show(self, runs: Runs, arm: Arm, steps: int, what: str) -> Run:
        """Run an arm and show how it goes."""
        all_steps = steps + self._request.warmup_steps
        title = f"{what}, {ARM_NAMES[arm]}"
        self._progress.update(self._task, description=title, note="starting")

        def progressed(count: int) -> None:
            self._progress.update(self._task, note=f"step {count} of {all_steps}")

        run = runs.run(arm, steps, progressed)
        self._progress.advance(self._task)
        measured = f"{run.steps_per_s:.4g} steps/s ({counted(run.steps, 'step')} in {run.seconds:.3g} s)"
        self.say(f"{what}, {run.name}: {measured}")
        return run
