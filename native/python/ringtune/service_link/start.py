# SPDX-License-Identifier: Apache-2.0
"""The start that the service offers: fetched in a bounded time, checked against the compiled-in box, then tested.

What the service says is a suggestion and nothing more: a config that is not legal here is not used at all, and a legal
one is measured beside the baseline before anything rests on it.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ringtune.client.errors import ServiceUnavailableError
from ringtune.tuner import Config, Designer, SearchSpace, Suggestion, Trial, Value
from ringtune.tuner.designers import DesignerWrapper

START_LIMIT_S = 2.0
"""How long a job waits for its start in all, the name lookup included."""

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T]) -> T:
    """Return what a call returns, if it does so in time; a call that is late is left behind in its thread.

    Raises:
        ServiceUnavailableError: If it is late.
        Exception: What the call raised.
    """
    answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(), None))
        except Exception as error:  # noqa: BLE001  (raised again where it is waited for)
            answers.put((None, error))

    threading.Thread(target=work, name="ringtune-start", daemon=True).start()
    try:
        answer, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise ServiceUnavailableError(f"the service did not answer within {limit_s:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # None only beside an error


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


class StartingDesigner(DesignerWrapper):
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
