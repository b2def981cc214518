# SPDX-License-Identifier: Apache-2.0
"""The job of a world: its engine's knobs, or these together with a model's settings."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from ringtune.errors import RingtuneError
from ringtune.tuner import Question, Result, Trial
from ringtune.tuning.job.thread import TuningJob
from ringtune.tuning.job.waiting import Standby
from ringtune.tuning.service_link import ServiceJob, ServiceLink
from ringtune.world.world import World

from .cost_prior import gradient_bytes
from .job import EngineJob


class WorldJob:
    """See `ringtune.tuning.job.thread.TuningJob`."""

    def __init__(self, world: World, engine_job: EngineJob, link: ServiceLink) -> None:
        """Begin with the engine's knobs.

        Args:
            world: Rank 0's.
            engine_job: The engine's knobs alone.
            link: The job's link to the service.
        """
        self._world = world
        self._engine_job = engine_job
        self._job: TuningJob = engine_job
        self._link = link

    def hand_over(self, job: TuningJob) -> None:
        """Tune a model and the engine together; called before the first step is marked."""
        self._job = job

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Wait for a marked step; then see whether the job can be tuned."""
        return self._engine_job.wait_for_steps() and self._job.begin(warn)

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Return the job's question, the first time with the service's part in it."""
        self._tell_ranks(is_finished=False)
        question = self._job.question(earlier)
        if earlier:
            return question
        sizes = gradient_bytes(self._world.gradient_set.counts())
        job = ServiceJob(question.settings, question.target.space(), sizes)
        return replace(question, designer=self._link.with_start(question.designer, job))

    def standby(self) -> Standby:
        """Return the job's target and key for training while another job tunes."""
        return self._job.standby()

    def rest(self, seconds: float) -> None:
        """Wait, less when the job ends."""
        self._job.rest(seconds)

    def decided(self, result: Result) -> None:
        """Let all ranks know that a decision is in force."""
        self._job.decided(result)
        self._tell_ranks(is_finished=True)

    def ended(self) -> None:
        """Let all ranks know that no more configs are tried."""
        self._job.ended()
        self._tell_ranks(is_finished=True)

    def _tell_ranks(self, *, is_finished: bool) -> None:
        with suppress(RingtuneError):  # a world that is over needs no word
            self._world.engine.tell_tuning(is_finished)
