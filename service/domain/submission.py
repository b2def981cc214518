# SPDX-License-Identifier: Apache-2.0
"""A result on its way into the ledger: checked, in its columns, with the digest that tells a retry from a conflict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringtune.service.errors import InvalidRequest
from ringtune.service.store.rows import NewReport
from ringtune.tuner import Config, Phase, SearchSpace, Value
from ringtune.tuner.logs.records import OLD_CI_LEVEL

from .canonical import canonical, digest
from .plausibility import check, suspicion
from .spaces import ENGINE_TARGET, engine_space, is_legal, legal_config, sane_config, with_every_knob
from .study_cache import KnownStudy
from .values import PairedTestResult, ReportedResult

MAX_ID = 64


@dataclass(frozen=True)
class Submission:
    """A result for the writer.

    Attributes:
        study_id: The study.
        trial_id: The trial.
        job_id: The reporting job.
        fencing_token: Fencing token of the lease, if one was given.
        row: The ledger's row; the writer sets its status, reason and time.
        suspicion: Reason to doubt the result, or None.
    """

    study_id: str
    trial_id: str
    job_id: str
    fencing_token: int | None
    row: NewReport
    suspicion: str | None


class LegalConfigs:
    """Legal configs of a batch: each is checked and written once, however many windows were measured under it."""

    def __init__(self, target: str, spaces: Sequence[SearchSpace]) -> None:
        """Take configs of a target that are legal in one of some spaces, the likeliest first; without any, any."""
        self._target = target
        self._spaces = spaces
        self._written: dict[str, tuple[str, str]] = {}

    @classmethod
    def of_engine(cls) -> "LegalConfigs":
        """Take results within the engine's limits."""
        return cls(ENGINE_TARGET, [engine_space()])

    @classmethod
    def of_archive(cls, target: str) -> "LegalConfigs":
        """Take results as an export may hold them: the spaces that they were checked against are not in it."""
        return cls.of_engine() if target == ENGINE_TARGET else cls(target, ())

    def written(self, config: Config) -> tuple[str, str]:
        """Return a config as the ledger has it, and its digest; OutsideSearchSpace if it is not legal."""
        key = repr(config.to_json())  # not the config: 1, 1.0 and True are equal, and not all legal
        if key not in self._written:
            text = canonical(self._legal(with_every_knob(self._target, config)).to_json())
            self._written[key] = text, digest(text)
        return self._written[key]

    def _legal(self, config: Mapping[str, Value]) -> Config:
        if not self._spaces:
            return sane_config(config)
        fitting = (space for space in self._spaces if is_legal(space, config))
        return legal_config(next(fitting, self._spaces[0]), config)


def prepare(
    study: KnownStudy, trial_id: str, result: ReportedResult, *, max_speedup: float, configs: LegalConfigs
) -> Submission:
    """Check a result and return the row to store.

    Args:
        study: Study of the result.
        trial_id: The trial.
        result: The job's report.
        max_speedup: Claims beyond it are not believed.
        configs: Legal configs of whoever reports.

    Raises:
        InvalidRequest: If an id is empty, too long or not printable.
        OutsideSearchSpace: If the config is not legal.
        ImplausibleResult: If the numbers cannot be true.
    """
    for name, text in (("trial_id", trial_id), ("job_id", result.job_id), ("run_id", result.run_id or "-")):
        check_id(name, text)
    check(result)
    config, config_digest = configs.written(result.config)
    body = _body(result, config)
    row = NewReport(
        study_id=study.study_id,
        trial_id=trial_id,
        body_digest=digest(canonical(body)),
        config_digest=config_digest,
        token_id=result.token_id,
        **{**body, "ci_level": _level(result.adoption)},
    )
    reason = suspicion(result, max_speedup=max_speedup)
    identity = (study.study_id, trial_id, result.job_id, result.fencing_token)
    return Submission(*identity, row, reason)


def as_reported(result: ReportedResult, config: str) -> str:
    """Return the digest of a result with its config as a ledger wrote it: without the knobs that came later."""
    return digest(canonical(_body(result, config)))


def check_id(name: str, text: str) -> None:
    """Raise InvalidRequest for an id that cannot be a key."""
    if not 1 <= len(text) <= MAX_ID or not text.isprintable() or not text.isascii():
        raise InvalidRequest(f"{name}={text[:100]!r} is no id: 1 to {MAX_ID} printable ASCII characters")


def _body(result: ReportedResult, config: str) -> dict[str, Any]:
    """Return the columns that make two results the same; a level is among them where it is not that of old logs."""
    times = result.step_ms
    return {
        **_test(result.adoption),
        "job_id": result.job_id,
        "run_id": result.run_id,
        "phase": Phase(result.phase).value,
        "config": config,
        "score_bytes_per_s": _double(result.score_bytes_per_s),
        "median_step_ms": _double(times.median if times else None),
        "mad_step_ms": _double(times.mad if times else None),
        "mean_step_ms": _double(times.mean if times else None),
        "steps": result.steps,
        "valid": result.valid,
        "void_reason": None if result.reason is None else result.reason.value,
    }


def _test(adoption: PairedTestResult | None) -> dict[str, Any]:
    """Return the columns of a paired test."""
    if adoption is None:
        return dict.fromkeys(("speedup", "ci_low", "ci_high", "pairs"))
    figures = {name: _double(getattr(adoption, name)) for name in ("speedup", "ci_low", "ci_high")}
    level = {} if adoption.ci_level == OLD_CI_LEVEL else {"ci_level": _level(adoption)}
    return {**figures, **level, "pairs": adoption.pairs}


def _level(adoption: PairedTestResult | None) -> float | None:
    return None if adoption is None else _double(adoption.ci_level)


def _double(value: float | None) -> float | None:
    """Return a number as the database gives it back, so that its digest stays: no whole number, no negative zero."""
    return None if value is None else float(value) + 0.0
