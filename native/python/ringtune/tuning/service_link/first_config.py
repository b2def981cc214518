# SPDX-License-Identifier: Apache-2.0
"""The first config that the service recommends: fetched with a deadline, checked against the box here, then tested.

A recommendation is only a suggestion. A config that is not legal here is not used at all, and a legal one
is measured beside the baseline before anything rests on it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ringtune.client.errors import ServiceUnavailableError
from ringtune.system.deadlines import DeadlineExceeded, WallDeadline, call_with_deadline
from ringtune.tuner import Config, Designer, SearchSpace, Suggestion, Trial, Value
from ringtune.tuner.designers import DesignerWrapper
from ringtune.tuner.space.parameters import FIRST_KNOBS, with_later_knobs

START_LIMIT_S = 2.0
"""Deadline for the service's answer, the name lookup included, seconds."""

T = TypeVar("T")


def answer_within(limit_s: float, call: Callable[[], T]) -> T:
    """Return the result of a call of the service, or raise its error; a late call is left behind.

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
        offered: Config from the service; knobs that are not known here are ignored, and of the engine those that the
            service's version does not know have their defaults.
        space: The legal configs of this job.

    Raises:
        SpaceError: If a value is not allowed, or one that is free here is missing: then no part of it is used.
    """
    known = with_later_knobs(offered) if {p.name for p in space.parameters} >= FIRST_KNOBS else offered
    checked = {p.name: p.check(known[p.name]) for p in space.parameters if p.name in known}
    return space.validate({**checked, **space.fixed})


class FirstConfigDesigner(DesignerWrapper):
    """Designer that suggests the service's config first, unless it was tried, and then asks another designer."""

    def __init__(self, designer: Designer, config: Config) -> None:
        """Stand before a designer, with a config that is legal in its space."""
        super().__init__(designer)
        self._config = config
        self._is_tried = False
        self._is_ours = False

    @property
    def name(self) -> str:
        """Origin of the newest suggestion: `service`, or the other designer's name."""
        return "service" if self._is_ours else self.designer.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Pass all trials on to the other designer."""
        self._is_tried = self._is_tried or any(trial.config == self._config for trial in trials)
        self.designer.update(trials)

    def suggest(self) -> Suggestion:
        """Return the service's config once, then the suggestions of the other designer."""
        self._is_ours = not self._is_tried
        self._is_tried = True
        return Suggestion(self._config) if self._is_ours else self.designer.suggest()
