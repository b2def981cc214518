# SPDX-License-Identifier: Apache-2.0
"""In which search space a job asks: the study's, which is its first job's, or one of its own.

A job may have fixed other knobs than the first one of its key, or fewer, or know other algorithms. Suggestions are
computed for each space apart; equal spaces are one, whoever asks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ringtune.tuner import SearchSpace

from .canonical import canonical, digest
from .spaces import job_space
from .study_cache import KnownStudy


@dataclass(frozen=True)
class AskedSpace:
    """A study and a space in which suggestions are wanted.

    Attributes:
        study_id: The study.
        digest: Digest of the space; empty for the study's own.
        space: The space in which suggestions must be legal.
    """

    study_id: str
    digest: str
    space: SearchSpace = field(compare=False)

    @classmethod
    def of(cls, study: KnownStudy, space_json: Mapping[str, Any] | None = None) -> "AskedSpace":
        """Return the space that a job asks in; None stands for the study's.

        Raises:
            OutsideSearchSpace: If it is none, or reaches beyond what is legal in the study.
        """
        if space_json is not None:
            space = job_space(study.key.target, space_json, study.legal)
            if (space.parameters, space.fixed) != (study.space.parameters, study.space.fixed):
                return cls(study.study_id, digest(canonical(space.to_json())), space)
        return cls(study.study_id, "", study.space)
