# SPDX-License-Identifier: Apache-2.0
"""A live model as the tuner's target. Memory is a constraint: settings that need too much are void, and remembered."""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from ringtune.tuner import Config, SearchSpace, VoidReason, Window, WindowSpec
from ringtune.tuning.job.target import BaseTarget
from ringtune.tuning.job.windows import WindowBuilder

from .exchange import Exchange
from .live_model import Words


class LiveTarget(BaseTarget):
    """A model's settings as a target. Used from the tuning thread alone."""

    def __init__(
        self, name: str, exchange: Exchange, space: SearchSpace, baseline: Config, builder: WindowBuilder,
        *, words_of: Callable[[Config], Words],
    ) -> None:  # fmt: skip
        """Stand before the training threads.

        Args:
            name: Name in a study's key.
            exchange: Shared with the training thread of rank 0.
            space: The legal configs.
            baseline: Legal in `space`, and in force.
            builder: Makes windows out of steps.
            words_of: Returns the settings that a config stands for.
        """
        super().__init__(name, space, baseline)
        self._exchange = exchange
        self._builder = builder
        self._words_of = words_of

    def apply(self, config: Config) -> int:
        """Ask for a config; return its epoch at once.

        Raises:
            TargetClosed: If the job is over.
        """
        self._exchange.check_open()
        return self._exchange.ask(self._words_of(config))

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows of the steps to come: unread steps may be minutes old.

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


class LimitedTarget(LiveTarget):
    """A live model whose memory is limited.

    A config that would need more than there is, by `extra_bytes`, is void without being brought in force. One whose
    measured peak is above the limit is void, too; the ranks have left it by then.
    """

    def __init__(
        self, name: str, exchange: Exchange, space: SearchSpace, baseline: Config, builder: WindowBuilder,
        *, words_of: Callable[[Config], Words], extra_bytes: Callable[[Words], int],
    ) -> None:  # fmt: skip
        """Stand before the training threads.

        Args:
            name: Name in a study's key.
            exchange: Shared with the training thread of rank 0.
            space: The legal configs.
            baseline: Legal in `space`, and in force.
            builder: Makes windows out of steps.
            words_of: Returns the settings that a config stands for.
            extra_bytes: Returns the most memory that settings need beyond that of the baseline, bytes.
        """
        super().__init__(name, exchange, space, baseline, builder, words_of=words_of)
        self._extra_bytes = extra_bytes
        self._refused: set[Config] = set()
        self._config = baseline

    def refuse(self, configs: AbstractSet[Config]) -> None:
        """Give configs up: earlier runs have seen that they need too much."""
        self._refused |= configs

    def fits(self, config: Config) -> bool:
        """Return whether a config may be tried, by the measurements so far."""
        if config == self.baseline():
            return True
        needed = self._extra_bytes(self._words_of(config))
        return config not in self._refused and needed <= self._exchange.memory.room_bytes

    def apply(self, config: Config) -> int:
        """Ask for a config, unless it would need too much memory; return the epoch at once.

        Raises:
            TargetClosed: If the job is over.
        """
        self._exchange.check_open()
        self._config = config
        if not self.fits(config):
            return self._exchange.wish.epoch
        return super().apply(config)

    def _window(self, spec: WindowSpec) -> Window:
        if not self.fits(self._config):
            return self._void(spec)
        self._builder.begin(spec)
        window: Window | None = None
        while window is None or not self._is_checked(window):
            built = self._builder.add(self._exchange.next_end())
            window = built if window is None else window
            if self._exchange.memory.is_refused(spec.epoch):
                self._refused.add(self._config)
                return self._void(spec)
        return window

    def _is_checked(self, window: Window) -> bool:
        """Return whether the memory of a window's steps is known; a decision's and the baseline's need not be."""
        if self._config == self.baseline() or window.void_reason is not None or self._exchange.wish.is_decision:
            return True
        return window.last_step is None or window.last_step <= self._exchange.memory.checked_step

    def _void(self, spec: WindowSpec) -> Window:
        size, tensor_set = self._builder.bytes_per_step, self._builder.tensor_set
        return Window(spec.epoch, (), size, tensor_set, VoidReason.MEMORY_LIMIT)
