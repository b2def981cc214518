# SPDX-License-Identifier: Apache-2.0
"""The question of a search: the job's settings and identity, and priors from its past, this machine and models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ringtune.settings.settings import Settings
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    EarlierStudy,
    Prior,
    Question,
    RunSettings,
    SearchSpace,
    Target,
    Trial,
    find_unfinished,
    make_designer,
    study_of,
)
from ringtune.tuner.designers import Designer

from .job_labels import job_labels
from .memory import OFF, Memory


@dataclass(frozen=True)
class JobIdentity:
    """Identity of a training job.

    Attributes:
        key: The study's key, from `fingerprints.study_key`.
        ranks_per_host: Number of ranks on each host.
        hardware: Facts of its machines, from `fingerprints.hardware_facts`.
        versions: Versions of the software.
    """

    key: Mapping[str, Any]
    ranks_per_host: Sequence[int]
    hardware: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]


def run_settings(settings: Settings, identity: JobIdentity, space: SearchSpace, *, is_first: bool) -> RunSettings:
    """Return the budget and identity of a search.

    Args:
        settings: The job's.
        identity: The job's.
        space: The legal configs.
        is_first: Whether it is the job's first search. Without a cache it resumes an unfinished run of its log.
    """
    path, question = settings.autotune_log, (identity.key, space.to_json(), settings.seed)
    return RunSettings(
        **settings.limits._asdict(),
        warmup_steps=settings.warmup_steps,
        steps_per_sample=settings.steps_per_sample,
        seed=settings.seed,
        key=identity.key,
        model_name=settings.autotune_model,
        labels=job_labels(settings, identity.hardware),
        layout={"ranks_per_host": list(identity.ranks_per_host)},
        versions=identity.versions,
        prior_trials=find_unfinished(path, *question) if is_first and settings.autotune_cache == OFF else (),
    )


def question_of(
    target: Target, settings: RunSettings, memory: Memory, earlier: Sequence[Trial], models: Sequence[Prior] = (),
    *, wrap: Callable[[Designer], Designer] | None = None,
) -> Question:  # fmt: skip
    """Return a question whose designer has a prior: the job's search before, or else earlier jobs; then models.

    Args:
        target: The target to tune.
        settings: Budget and identity.
        memory: Earlier runs of this machine; not read where the baseline is the only legal config.
        earlier: Trials of the job's search before; empty for the first.
        models: Priors that need no measurements.
        wrap: Wraps the designer; None leaves it as it is.
    """
    space, seed = target.space(), settings.seed
    learned: Sequence[EarlierStudy] = study_of(space, earlier, seed)
    if not learned and space.free:
        learned = memory.priors(settings.key, space, seed, models)
    begins_with = tuple(study.origin for study in learned if study.origin)
    designer = make_designer(DEFAULT_DESIGNER, space, seed, [*learned, *models])
    designer = designer if wrap is None else wrap(designer)
    return Question(target, designer, replace(settings, begins_with=begins_with))
