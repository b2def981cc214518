# SPDX-License-Identifier: Apache-2.0
"""The calls of the REST interface, version 1, one method each: bodies in, typed replies out.

Every method raises `StoreError` of the kinds in `errors`: the service did not answer, said no, or is none. Every write
may be repeated as it is: ids are UUIDs that the caller made, in lower case, so that a lost answer costs only another
call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from ringtune.shared_service.rest_models import (
    CreatedToken,
    DeletedResults,
    Imported,
    Recommendation,
    StoredBatch,
    StoredResult,
    StoredRun,
    StoredRuns,
    Study,
    StudyPage,
    Suggestion,
    Token,
    TokenPage,
)
from ringtune.shared_service.rest_models.fields import Reply

from .errors import ServiceReplyError, ServiceUnavailableError
from .replies import read_reply
from .wire import ExchangeLimits, Wire

MAX_VERSION_CHARACTERS = 100

Json = Mapping[str, Any]
ReplyType = TypeVar("ReplyType", bound=Reply)


class ServiceClient:
    """A client of one service; thread-safe, one call at a time."""

    def __init__(self, url: str, token: str | None = None, limits: ExchangeLimits | None = None) -> None:
        """Connect with the first call.

        Args:
            url: Address of the service, such as `http://127.0.0.1:8080`, with the path before `/v1` if there is one.
            token: Sent with each call; None where the service is open.
            limits: Limits of a call; by default `wire.DEFAULT_LIMIT_S` and `wire.MAX_REPLY_BYTES`.

        Raises:
            ConfigError: If the URL or the token is malformed.
        """
        self._wire = Wire(url, token, limits or ExchangeLimits())

    @property
    def url(self) -> str:
        """Return the address of the service."""
        return self._wire.url

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._wire.close()

    def is_alive(self) -> bool:
        """Return whether a service answers at all."""
        return self._answers("/healthz")

    def is_ready(self) -> bool:
        """Return whether the service can reach its database."""
        return self._answers("/readyz")

    def version(self) -> str:
        """Return the version of ringtune that the service runs; the limit of bytes must leave room for a description.

        Raises:
            ServiceReplyError: If the program that answers is no ringtune service.
        """
        description = self._wire.exchange("GET", "/openapi.json")
        info = description.get("info") if isinstance(description, dict) else None
        version = info.get("version") if isinstance(info, dict) else None
        if not isinstance(version, str):
            raise ServiceReplyError(f"{self.url} answered without a version: is it the URL of a ringtune service?")
        return version[:MAX_VERSION_CHARACTERS]

    def recommendation(
        self,
        *,
        hardware: str | None,
        world_size: int,
        local_size: int,
        model: str | None = None,
        model_fingerprint: str | None = None,
        target: str = "ringtune",
        surface_version: int = 1,
        gradient_bytes: Sequence[int] = (),
    ) -> Recommendation:
        """Return the config that a job should start with; without evidence the default.

        Args:
            hardware: Its fingerprint; None for any.
            world_size: Number of ranks.
            local_size: Ranks on each host.
            model: The model's name, if its fingerprint is not known; an ambiguous one is answered by candidates.
            model_fingerprint: The model's fingerprint.
            target: The target to set.
            surface_version: The engine's.
            gradient_bytes: Bytes of each gradient of a step, if known: finds similar models.
        """
        query = {
            "model": model,
            "model_fingerprint": model_fingerprint,
            "hardware": hardware,
            "world_size": str(world_size),
            "local_size": str(local_size),
            "target": target,
            "surface_version": str(surface_version),
            "step_bytes": str(sum(gradient_bytes)) if gradient_bytes else None,
            "tensors": str(len(gradient_bytes)) if gradient_bytes else None,
        }
        return self._get(Recommendation, "/v1/recommendations", query)

    def find_or_create_study(self, study: Json) -> Study:
        """Return the study of a key, a new one if there was none.

        Args:
            study: `key`, `search_space`, and `model_name`, `hardware_name` if they have names.
        """
        return self._send(Study, "POST", "/v1/studies", study)

    def study(self, study_id: str) -> Study:
        """Return a study."""
        return self._get(Study, f"/v1/studies/{_quoted(study_id)}")

    def studies(self, *, cursor: str | None = None, limit: int | None = None, **filters: str | None) -> StudyPage:
        """Return some studies; `filters` are `model`, `model_fingerprint`, `hardware`, `target`."""
        return self._get(
            StudyPage, "/v1/studies", {"cursor": cursor, "limit": None if limit is None else str(limit), **filters}
        )

    def delete_study(self, study_id: str) -> None:
        """Delete a study with everything in it."""
        self._wire.exchange("DELETE", f"/v1/studies/{_quoted(study_id)}")

    def ask(
        self,
        study_id: str,
        trial_id: str,
        job_id: str,
        lease_s: float | None = None,
        *,
        search_space: Json | None = None,
    ) -> Suggestion:
        """Return a config to try, under a lease; the same `trial_id` gets the same config.

        Args:
            study_id: The study.
            trial_id: The caller's name for the trial.
            job_id: The job that gets the lease.
            lease_s: Seconds of the lease; None leaves it to the service.
            search_space: The job's own, `SearchSpace.to_json()`; None: that of the study's first job.
        """
        wanted = {"lease_s": lease_s, "search_space": search_space}
        given = {name: value for name, value in wanted.items() if value is not None}
        ask = {"trial_id": trial_id, "job_id": job_id, **given}
        return self._send(Suggestion, "POST", f"/v1/studies/{_quoted(study_id)}/suggestions", ask)

    def renew(self, study_id: str, suggestion: Suggestion, job_id: str, lease_s: float | None = None) -> Suggestion:
        """Keep a trial for longer; `ServiceRefusedError` if the lease is lost."""
        held = {"job_id": job_id, "fencing_token": suggestion.lease.fencing_token}
        renewal = {**held, **({} if lease_s is None else {"lease_s": lease_s})}
        return self._send(Suggestion, "PUT", _lease_path(study_id, suggestion.trial_id), renewal)

    def release(self, study_id: str, suggestion: Suggestion, job_id: str) -> None:
        """Give a trial back untried."""
        query = {"job_id": job_id, "fencing_token": str(suggestion.lease.fencing_token)}
        self._wire.exchange("DELETE", _lease_path(study_id, suggestion.trial_id), query=query)

    def tell(self, study_id: str, trial_id: str, result: Json) -> StoredResult:
        """Report a trial's result; it is durable once this returns."""
        path = f"/v1/studies/{_quoted(study_id)}/trials/{_quoted(trial_id)}/result"
        return self._send(StoredResult, "PUT", path, result)

    def tell_batch(self, study_id: str, results: Sequence[Json]) -> StoredBatch:
        """Report several results, each with its `trial_id`; those that are kept are durable once this returns."""
        path = f"/v1/studies/{_quoted(study_id)}/results"
        stored = self._send(StoredBatch, "POST", path, {"results": list(results)})
        if [item.trial_id for item in stored.items] != [result["trial_id"] for result in results]:
            raise ServiceReplyError(f"{self.url} did not answer for the {len(results)} results that were sent")
        return stored

    def push_runs(self, records: Sequence[Json], job_id: str | None = None) -> StoredRuns:
        """Report whole runs, as their tuning log has them; by default each run is a job of its own."""
        job = {} if job_id is None else {"job_id": job_id}
        return self._send(StoredRuns, "POST", "/v1/runs", {"records": list(records), **job})

    def push_run(self, records: Sequence[Json], job_id: str) -> StoredRun:
        """Report one run of a job."""
        runs = self.push_runs(records, job_id).runs
        if len(runs) != 1:
            raise ServiceReplyError(f"{self.url} did not answer for the run that was sent")
        return runs[0]

    def put_job(self, study_id: str, facts: Json) -> None:
        """Store a job's name and progress; `facts` has its `job_id` and the fields of the call."""
        path = f"/v1/studies/{_quoted(study_id)}/jobs/{_quoted(facts['job_id'])}"
        self._wire.exchange("PUT", path, body={name: value for name, value in facts.items() if name != "job_id"})

    def export(self) -> Iterator[bytes]:
        """Yield everything that the service knows, a line of JSON each."""
        return self._wire.lines("/v1/export")

    def import_lines(self, lines: Iterable[bytes]) -> Imported:
        """Import the export of another service, a line of JSON each."""
        body = b"".join(line.rstrip(b"\n") + b"\n" for line in lines)
        return read_reply(Imported, self._wire.exchange("POST", "/v1/import", body=body))

    def create_token(self, name: str, scopes: Sequence[str], *, has_many_jobs: bool = False) -> CreatedToken:
        """Return a new token with its secret, which cannot be shown again.

        Args:
            name: For people.
            scopes: Permissions of the token.
            has_many_jobs: Whether its jobs count one by one as evidence.
        """
        body = {"name": name, "scopes": list(scopes), "has_many_jobs": has_many_jobs}
        return self._send(CreatedToken, "POST", "/v1/tokens", body)

    def tokens(self, *, cursor: str | None = None) -> TokenPage:
        """Return the tokens."""
        return self._get(TokenPage, "/v1/tokens", {"cursor": cursor})

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._wire.exchange("DELETE", f"/v1/tokens/{_quoted(token_id)}")

    def change_token(self, token_id: str, *, has_many_jobs: bool) -> Token:
        """Say whether a token's jobs count one by one as evidence, those that it reported already included."""
        return self._send(Token, "PATCH", f"/v1/tokens/{_quoted(token_id)}", {"has_many_jobs": has_many_jobs})

    def delete_results(self, token_id: str) -> DeletedResults:
        """Delete all results and logs that came with a token."""
        path = f"/v1/tokens/{_quoted(token_id)}/results"
        return read_reply(DeletedResults, self._wire.exchange("DELETE", path))

    def _get(self, kind: type[ReplyType], path: str, query: Mapping[str, str | None] | None = None) -> ReplyType:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return read_reply(kind, self._wire.exchange("GET", path, query=given))

    def _send(self, kind: type[ReplyType], method: str, path: str, body: Json) -> ReplyType:
        return read_reply(kind, self._wire.exchange(method, path, body=dict(body)))

    def _answers(self, path: str) -> bool:
        try:
            self._wire.exchange("GET", path)
        except ServiceUnavailableError:
            return False
        return True


def _lease_path(study_id: str, trial_id: str) -> str:
    return f"/v1/studies/{_quoted(study_id)}/suggestions/{_quoted(trial_id)}/lease"


def _quoted(text: str) -> str:
    return quote(text, safe="")
