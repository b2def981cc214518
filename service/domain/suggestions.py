# SPDX-License-Identifier: Apache-2.0
"""Asking: a config for one job at a time, under a lease that ends by the database's clock.

Where a config comes from, in this order: one whose lease was given up, one that a designer has computed ahead, one that
fills the space. No optimizer runs here, and none is waited for. Each is legal in the search space of the job that asks:
its own where it says so, else the study's if its token said that one, else the last that its token said.

A config that was given up goes to the token that gave it up, or once to another: if the service's designer computed it
for this very space. So no token chooses the measurements of others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from ringtune.service.errors import (
    InvalidRequest,
    LeaseLost,
    QuotaExceeded,
    StudyNotFound,
    TrialConflict,
    TrialNotFound,
)
from ringtune.service.store import Database, leases, reports, studies
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import TrialRow
from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.designers.candidates import first_numbers, latin_hypercube

from .asked_space import AskedSpace
from .budgets import row_cost, spend
from .canonical import canonical, digest
from .job_owners import claim
from .policy import ServiceLimits
from .said_spaces import say, space_of
from .spaces import study_space
from .study_cache import StudyCache
from .submission import check_id
from .values import LeasedSuggestion

QUOTA_RETRY_S = 60.0
"""Until a lease may have ended."""
FILLING = "spread"
FIRST = 5
"""Configs that differ from the default in their numbers alone, at most: equal ones are one."""
BLOCK = 64
"""Configs of one Latin hypercube."""
MAX_GIVEN_UP = 32
"""Configs that were given up, of which one is looked for that is legal for whoever asks."""


@dataclass(frozen=True)
class _Choice:
    config: str
    designer: str
    space_digest: str
    is_handed_on: bool = False

    def leased(self, now_unix_s: float, lease_s: float, **ids: Any) -> TrialRow:
        """Return the row of a first lease of this config; `ids` are its study, trial, job and token."""
        return TrialRow(
            **ids,
            config=self.config,
            config_digest=digest(self.config),
            designer=self.designer,
            state=leases.LEASED,
            fencing_token=1,
            asked_unix_s=now_unix_s,
            expires_unix_s=now_unix_s + lease_s,
            space_digest=self.space_digest,
            is_handed_on=self.is_handed_on,
        )


@dataclass(frozen=True)
class HeldLease:
    """A lease as its holder names it.

    Attributes:
        study_id: The study.
        trial_id: The trial.
        job_id: The job that asked.
        fencing_token: Fencing token of the lease.
        token_id: The token that calls; None where the service is open.
    """

    study_id: str
    trial_id: str
    job_id: str
    fencing_token: int
    token_id: str | None = None


class Suggestions:
    """Leases of configs."""

    def __init__(
        self,
        database: Database,
        cache: StudyCache,
        box: SearchSpace,
        policy: ServiceLimits,
        wants: Callable[[AskedSpace], None],
    ) -> None:
        """Keep leases in `database`; `wants` is told which space needs suggestions, and returns at once."""
        self._box = box
        self._database = database
        self._cache = cache
        self._policy = policy
        self._wants = wants

    def ask(
        self,
        study_id: str,
        trial_id: str,
        job_id: str,
        lease_s: float,
        *,
        space_json: Mapping[str, Any] | None = None,
        token_id: str | None = None,
    ) -> LeasedSuggestion:
        """Return a config under a lease; the same trial again gets the same config, and its lease begins anew.

        Args:
            study_id: The study.
            trial_id: Id that the client chose.
            job_id: The asking job.
            lease_s: Seconds for which the config is this job's.
            space_json: The job's own search space, `SearchSpace.to_json()`; None: the study's if its token
                said that one, else the last that its token said.
            token_id: The token that asks; None where the service is open.

        Raises:
            StudyNotFound: If there is no such study.
            JobConflict: If the job belongs to another token.
            QuotaExceeded: If the token holds too many leases in the study, or may store no more now.
            TrialConflict: If another job asked for this trial, or it has a result.
            LeaseLost: If the lease ended and another job got the config: ask with a new trial id.
            InvalidRequest: If an id or the duration is not allowed.
            OutsideSearchSpace: If the search space is none, or reaches beyond the legal one of the study.
        """
        study = self._cache.get(study_id)
        own = None if space_json is None else study_space(study.key.target, space_json, self._box)
        check_id("trial_id", trial_id)
        check_id("job_id", job_id)
        self._check_duration(lease_s)
        with self._database.writing(f"ringtune ask {study_id}") as connection:
            if not studies.existing(connection, {study_id}):  # another process may have deleted it
                self._cache.forget(study_id)
                raise StudyNotFound(f"study {study_id} was deleted; create it with its key first")
            now = now_unix_s(connection)
            claim(connection, job_id, token_id, self._policy)
            if own is not None:
                say(connection, study_id, token_id, own, self._policy)
            asked = AskedSpace.of(study, own or space_of(connection, study, token_id), _names(space_json))
            if (trial := leases.trial(connection, study_id, trial_id)) is not None:
                _check_may_ask(trial, job_id)
                if not leases.holds(trial, now):
                    self._check_quota(connection, study_id, token_id, now)
                again = self._lease(connection, trial, now, lease_s)
                return replace(again, config=asked.known(again.config))
            if reports.stored(connection, [(study_id, trial_id)]):
                raise TrialConflict(f"trial {trial_id} has a result already; ask with a new trial id")
            self._check_quota(connection, study_id, token_id, now)
            ids = {"study_id": study_id, "trial_id": trial_id, "job_id": job_id, "token_id": token_id}
            row = self._choose(connection, asked, now, token_id).leased(now, lease_s, **ids)
            spend(connection, token_id, self._policy, row_cost(row.config))
            leases.add(connection, row)
        self._wants(asked)
        new = _suggestion(row, lease_s, is_new=True)
        return replace(new, config=asked.known(new.config))

    def renew(self, held: HeldLease, lease_s: float) -> LeasedSuggestion:
        """Let a lease end later.

        Raises:
            JobConflict: If the job belongs to another token.
            TrialNotFound: If the trial was not asked for.
            TrialConflict: If another job did.
            LeaseLost: If the lease ended, or was taken anew since.
        """
        self._check_duration(lease_s)
        with self._database.writing(f"ringtune ask {held.study_id}") as connection:
            now = now_unix_s(connection)
            trial = self._held(connection, held)
            if not leases.holds(trial, now):
                raise LeaseLost(f"the lease of trial {held.trial_id} has ended; ask for it again")
            leases.save(connection, replace(trial, expires_unix_s=now + lease_s))
            return _suggestion(trial, lease_s, is_new=False)

    def release(self, held: HeldLease) -> None:
        """Give a config back, so that another job gets it; again is allowed.

        Raises:
            JobConflict: If the job belongs to another token.
            TrialNotFound: If the trial was not asked for.
            TrialConflict: If another job did.
            LeaseLost: If it was taken anew since, or has a result.
        """
        with self._database.writing(f"ringtune ask {held.study_id}") as connection:
            now = now_unix_s(connection)
            trial = self._held(connection, held)
            if trial.state == leases.COMPLETED:
                raise LeaseLost(f"trial {held.trial_id} has a result already")
            if trial.state == leases.LEASED:
                leases.save(connection, replace(trial, state=leases.RELEASED, expires_unix_s=now))

    def live(self) -> tuple[int, int]:
        """Return how many leases hold, and how many suggestions wait."""
        with self._database.looking() as connection:
            return leases.live(connection, now_unix_s(connection)), leases.all_queued(connection)

    def _lease(self, connection: Connection, trial: TrialRow, now: float, lease_s: float) -> LeasedSuggestion:
        """Lease a trial again: under the same token while the lease holds, under a new one after it ended."""
        token = trial.fencing_token + (not leases.holds(trial, now))
        leased = replace(trial, state=leases.LEASED, fencing_token=token, expires_unix_s=now + lease_s)
        leases.save(connection, leased)
        return _suggestion(leased, lease_s, is_new=False)

    def _choose(self, connection: Connection, asked: AskedSpace, now: float, token_id: str | None) -> _Choice:
        study_id, space = asked.study_id, asked.space
        own = leases.Asker(token_id, asked.digest, self._policy.designer)
        for given_up in leases.abandoned(connection, study_id, now, own, MAX_GIVEN_UP):
            if space.contains(given_up.config_values):
                leases.save(connection, replace(given_up, state=leases.REASSIGNED))
                return _Choice(given_up.config, given_up.designer, asked.digest, is_handed_on=True)
        ahead = leases.take_queued(connection, study_id, asked.digest)
        if ahead is not None:
            return _Choice(ahead.config, ahead.designer, asked.digest)
        config = filling_config(space, int(study_id[:8], 16), leases.count(connection, study_id))
        return _Choice(canonical(config.to_json()), FILLING, asked.digest)

    def _held(self, connection: Connection, held: HeldLease) -> TrialRow:
        trial = leases.trial(connection, held.study_id, held.trial_id)
        if trial is None:
            raise TrialNotFound(f"nobody asked for trial {held.trial_id[:64]!r} of study {held.study_id[:64]!r}")
        claim(connection, held.job_id, held.token_id, self._policy)
        if trial.job_id != held.job_id:
            raise TrialConflict(f"trial {held.trial_id} was asked for by job {trial.job_id}")
        if trial.fencing_token != held.fencing_token or trial.state == leases.REASSIGNED:
            raise LeaseLost(
                f"the lease of trial {held.trial_id} under token {held.fencing_token} is lost; ask for a new trial"
            )
        return trial

    def _check_quota(self, connection: Connection, study_id: str, token_id: str | None, now: float) -> None:
        """Refuse one lease more than a token may hold; where the service is open there is no token, and no quota."""
        most = self._policy.max_leases_per_token
        if token_id is not None and leases.held(connection, study_id, token_id, now) >= most:
            raise QuotaExceeded(
                f"this token holds {most} leases in study {study_id}; release one, or wait until one ends",
                retry_after_s=QUOTA_RETRY_S,
            )

    def _check_duration(self, lease_s: float) -> None:
        if not 0 < lease_s <= self._policy.max_lease_s:
            raise InvalidRequest(f"lease_s={lease_s}; allowed: above 0, up to {self._policy.max_lease_s:g}")


def filling_config(space: SearchSpace, seed: int, index: int) -> Config:
    """Return the `index`-th config of those that fill a space: the default, numbers alone, then everything."""
    first = [*dict.fromkeys(map(space.validate, first_numbers(space, FIRST - 1, seed)))]
    if index < len(first):
        return first[index]
    block, place = divmod(index - len(first), BLOCK)
    return space.at_quantiles(latin_hypercube(BLOCK, len(space.free), seed + block)[place])


def _names(space_json: Mapping[str, Any] | None) -> list[str] | None:
    """Return the names of a space's parameters as the job said them; None without a space."""
    return None if space_json is None else [str(item["name"]) for item in space_json["parameters"]]


def _check_may_ask(trial: TrialRow, job_id: str) -> None:
    if trial.job_id != job_id:
        raise TrialConflict(f"trial {trial.trial_id} was asked for by job {trial.job_id}")
    if trial.state == leases.COMPLETED:
        raise TrialConflict(f"trial {trial.trial_id} has a result already; ask with a new trial id")
    if trial.state == leases.REASSIGNED:
        raise LeaseLost(f"the lease of trial {trial.trial_id} ended and another job has its config; ask anew")


def _suggestion(row: TrialRow, lease_s: float, *, is_new: bool) -> LeasedSuggestion:
    return LeasedSuggestion(
        study_id=row.study_id,
        trial_id=row.trial_id,
        job_id=row.job_id,
        config=Config(row.config_values),
        designer=row.designer,
        expires_in_s=lease_s,
        fencing_token=row.fencing_token,
        is_new=is_new,
    )
