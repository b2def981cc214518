# SPDX-License-Identifier: Apache-2.0
"""In which search space a job asks: one of its own, else the study's first, else its token's last.

A job may have fixed other knobs than the first one of its key, or fewer, or know other algorithms. Suggestions are
computed for each space apart; equal spaces are one, whoever asks.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from ringtune.tuner import Config, SearchSpace

from .canonical import canonical, digest
from .study_cache import KnownStudy


@dataclass(frozen=True)
class AskedSpace:
    """A study and a space in which suggestions are wanted.

    Attributes:
        study_id: The study.
        digest: Digest of the space; empty for the study's own.
        space: The space in which suggestions must be legal.
        names: Knobs that the asking job knows; None for all.
    """

    study_id: str
    digest: str
    space: SearchSpace = field(compare=False)
    names: frozenset[str] | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, study: KnownStudy, said: SearchSpace | None = None, names: Collection[str] | None = None
    ) -> "AskedSpace":
        """Return the space that a job asks in.

        Args:
            study: The study.
            said: The job's own space, with every knob, or one that stands for it; None stands for the study's.
            names: Knobs that the job knows; None for all.
        """
        known = None if names is None else frozenset(names)
        if said is None or (said.parameters, said.fixed) == (study.space.parameters, study.space.fixed):
            return cls(study.study_id, "", study.space, known)
        return cls(study.study_id, digest(canonical(said.to_json())), said, known)

    def known(self, config: Config) -> Config:
        """Return a config without the knobs that the asking job does not know: there they have their defaults."""
        if self.names is None:
            return config
        return Config({name: value for name, value in config.items() if name in self.names})
