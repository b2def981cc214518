# SPDX-License-Identifier: Apache-2.0
"""A DDP model as the tuner's target, and the exchange between rank 0's tuning thread and its training thread."""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from ringtune.tuner import Config, SearchSpace, TargetClosed, Window, WindowSpec
from ringtune.tuning.target import BaseTarget
from ringtune.tuning.windows import StepEnd, WindowBuilder

from .buckets import BucketSizes

TARGET_NAME = "torch-ddp"
POLL_S = 0.1  # longest delay until the end of the job is noticed, seconds; a step is handed over at once
MOST_UNREAD_STEPS = 1_000
"""Unread steps that are kept; later ones are lost, and the window at hand begins again."""


@dataclass(frozen=True)
class Wish:
    """The tuner's order to the training threads.

    Attributes:
        epoch: Number of changes of `sizes` so far.
        sizes: Sizes of the buckets to switch to.
        is_decision: True for a decision, which is only watched; false for a trial.
        is_last: True where no other wish follows.
    """

    epoch: int
    sizes: BucketSizes
    is_decision: bool = False
    is_last: bool = False


class Exchange:
    """Carries wishes to the training thread and ends of steps back; used from any thread."""

    def __init__(self, sizes: BucketSizes) -> None:
        """Begin with the sizes in force, as epoch 0."""
        self._lock = threading.Lock()  # guards _wish
        self._wish = Wish(0, sizes)
        self._ends: queue.Queue[StepEnd] = queue.Queue(MOST_UNREAD_STEPS)
        self.closing = threading.Event()
        """Set when there is nothing more to tune: the job is over, or the ranks have parted."""

    @property
    def wish(self) -> Wish:
        """The latest wish."""
        with self._lock:
            return self._wish

    def ask(self, sizes: BucketSizes) -> int:
        """Wish for sizes; return their epoch, the latest one where they are the latest wish already."""
        with self._lock:
            if sizes != self._wish.sizes:
                self._wish = Wish(self._wish.epoch + 1, sizes)
            return self._wish.epoch

    def settle(self) -> None:
        """Make the latest wish a decision, until another is asked for."""
        with self._lock:
            self._wish = replace(self._wish, is_decision=True)

    def rest(self, seconds: float) -> None:
        """Settle, and wait for so many seconds, less when there is nothing more to tune."""
        self.settle()
        self.closing.wait(seconds)

    def end(self) -> None:
        """Make the latest wish the last one."""
        with self._lock:
            self._wish = replace(self._wish, is_last=True)

    def put(self, end: StepEnd) -> None:
        """Hand over the end of a step, unless too many wait; never blocks."""
        with suppress(queue.Full):
            self._ends.put_nowait(end)

    def forget_ends(self) -> None:
        """Drop the ends of steps that nobody has read."""
        with suppress(queue.Empty):
            while True:
                self._ends.get_nowait()

    def next_end(self) -> StepEnd:
        """Wait for the end of a step.

        Raises:
            TargetClosed: If there is nothing more to tune.
        """
        while True:
            self.check_open()
            with suppress(queue.Empty):
                return self._ends.get(timeout=POLL_S)

    def check_open(self) -> None:
        """Raise TargetClosed if there is nothing more to tune."""
        if self.closing.is_set():
            raise TargetClosed("the job is over")


class DdpTarget(BaseTarget):
    """A DDP model's buckets as a target. Used from the tuning thread alone."""

    def __init__(self, exchange: Exchange, space: SearchSpace, baseline: Config, builder: WindowBuilder) -> None:
        """Stand before the training threads.

        Args:
            exchange: Shared with the training thread of rank 0.
            space: The legal configs.
            baseline: Legal in `space`, and in force.
            builder: Makes windows out of steps.
        """
        super().__init__(TARGET_NAME, space, baseline)
        self._exchange = exchange
        self._builder = builder

    def apply(self, config: Config) -> int:
        """Ask for a config; return its epoch at once.

        Raises:
            TargetClosed: If the job is over.
        """
        self._exchange.check_open()
        return self._exchange.ask(BucketSizes.from_config(config))

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows of the steps to come: steps that nobody has read may be minutes old.

        Raises:
            TargetClosed: If the job is over.
        """
        self._exchange.forget_ends()
        yield from super().windows(spec)

    def _window(self, spec: WindowSpec) -> Window:
        self._builder.begin(spec)
        while True:
            window = self._builder.add(self._exchange.next_end())
            if window is not None:
                return window
