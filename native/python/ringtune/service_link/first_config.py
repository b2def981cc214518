# SPDX-License-Identifier: Apache-2.0
"""The start that the service offers: fetched in a bounded time, checked against the compiled-in box, then tested.

What the service says is a suggestion and nothing more: a config that is not legal here is not used at all, and a legal
one is measured beside the baseline before anything rests on it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ringtune.client.errors import ServiceUnavailableError
from ringtune.deadlines import DeadlineExceeded, WallDeadline, call_with_deadline
from ringtune.tuner import Config, Designer, SearchSpace, Suggestion, Trial, Value
from ringtune.tuner.designers import DesignerWrapper

START_LIMIT_S = 2.0
"""How long a job waits for its start in all, the name lookup included."""

T = TypeVar("T")


def answer_within(limit_s: float, call: Callable[[], T]) -> T:
    """Return what a call of the service returns, or raise what it raises; a late call is left behind.

    Raises:
        ServiceUnavailableError: If it is late.
    """
    try:
        return call_with_deadline(call, WallDeadline(limit_s), "ringtune-first-config")
    except DeadlineExceeded:
        raise ServiceUnavailableError(f"the service did not answer within {limit_s:g} s") from None


def legal_config(offered: Mapping[str, Value], space: SearchSpace) -> Config:
    """Return the offered config as it may be tried here: knobs that are fixed here keep their values.

    Args:
        offered: As the service sent it; knobs that are not known here are ignored.
        space: What is legal in this job.

    Raises:
        SpaceError: If a value is not allowed, or one that is free here is missing: then nothing of it is used.
    """
    checked = {p.name: p.check(offered[p.name]) for p in space.parameters if p.name in offered}
    return space.validate({**checked, **space.fixed})


class FirstConfigDesigner(DesignerWrapper):
    """Suggests the service's config first, unless it was tried before, and is another designer otherwise."""

    def __init__(self, designer: Designer, config: Config) -> None:
        """Stand before a designer, with a config that is legal in its space."""
        super().__init__(designer)
        self._config = config
        self._is_tried = False
        self._is_ours = False

    @property
    def name(self) -> str:
        """Where the newest suggestion came from: `service`, or the other designer's name."""
        return "service" if self._is_ours else self.designer.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Tell the other designer all trials."""
        self._is_tried = self._is_tried or any(trial.config == self._config for trial in trials)
        self.designer.update(trials)

    def suggest(self) -> Suggestion:
        """Return the service's config once, then what the other designer suggests."""
        self._is_ours = not self._is_tried
        self._is_tried = True
        return Suggestion(self._config) if self._is_ours else self.designer.suggest()
