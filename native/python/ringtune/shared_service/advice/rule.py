# SPDX-License-Identifier: Apache-2.0
"""The rule: the config for the jobs of a key, by the verdicts of the key's jobs and the adoptions of paired tests.

| newest verdict of the key | the answer |
|---|---|
| "keeping default" | the default, unless the adoption below is upheld |
| "adopted" | the adopted config if its votes hold, else the default |
| none | no answer here: the caller asks by the same rule for the nearest key, and takes the default without one |

- A reporter's newest verdict takes the place of its earlier ones.
- An adoption is upheld against newer verdicts by as many reporters as keep the default; jobs that count one by one are
  trusted, so of two of them the newer one is right, and it takes two to uphold an adoption.
- Untested windows are no answer: they seed a search (`try_first` of the reply), and give no settings to paste.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ringtune.shared_service.rest_models import Evidence
from ringtune.system.counts import counted

from .contest import MIN_REPORTERS
from .votes import CI_LEVEL

Standing: TypeAlias = Literal["confirmed", "prior", "default"]

NOT_FASTER = "the default: nothing that is faster was adopted near enough"


class Judged(Protocol):
    """A config with the verdict on it over all its reporters."""

    @property
    def config_values(self) -> Mapping[str, Any]:
        """The config, by parameter."""

    @property
    def baseline_values(self) -> Mapping[str, Any] | None:
        """The baseline that the speed-up is over."""

    @property
    def trials(self) -> int:
        """Results of the config that count."""

    @property
    def jobs(self) -> int:
        """Jobs that measured it and the baseline."""

    @property
    def reporters(self) -> int:
        """Reporters that say something of it."""

    @property
    def trusted_jobs(self) -> int:
        """Reporters that are jobs."""

    @property
    def adopted(self) -> int:
        """Reporters whose paired tests adopted it."""

    @property
    def opposed(self) -> int:
        """Reporters whose paired tests kept the default."""

    @property
    def is_supported(self) -> bool:
        """True if enough reporters adopted it."""

    @property
    def is_confirmed(self) -> bool:
        """True if it is confirmed."""

    @property
    def is_over_default(self) -> bool:
        """True if its speed-up is over the default."""

    @property
    def speedup(self) -> float | None:
        """The speed-up, a fraction."""

    @property
    def ci_low(self) -> float | None:
        """Lower end of its interval."""

    @property
    def ci_high(self) -> float | None:
        """Upper end of its interval."""

    @property
    def newest_unix_s(self) -> float:
        """The time of its newest result."""


@dataclass(frozen=True)
class Decision:
    """The verdict of one job on its key.

    Attributes:
        reporter: The reporter under which the job counts.
        unix_s: When it was decided.
        is_adopted: Whether the job adopted a config; else it keeps the default.
        is_trusted_job: Whether the reporter is a job that counts by itself, not a token.
    """

    reporter: str
    unix_s: float
    is_adopted: bool
    is_trusted_job: bool


@dataclass(frozen=True)
class KeyVerdicts:
    """The verdicts of a key's jobs.

    Attributes:
        newest: The newest one, None without any; of two at one time the one that adopted.
        kept: Number of jobs that keep the default.
        adopted: Number of jobs that adopted a config.
        keepers: Reporters whose own newest verdict keeps the default.
    """

    newest: Decision | None
    kept: int
    adopted: int
    keepers: frozenset[str]

    @classmethod
    def of(cls, decisions: Iterable[Decision]) -> "KeyVerdicts":
        """Return verdicts in the order of their time."""
        ordered = sorted(decisions, key=lambda item: (item.unix_s, item.is_adopted))
        own = {item.reporter: item for item in ordered}  # the newest of each stays
        return cls(
            newest=ordered[-1] if ordered else None,
            kept=sum(not item.is_adopted for item in ordered),
            adopted=sum(item.is_adopted for item in ordered),
            keepers=frozenset(name for name, item in own.items() if not item.is_adopted),
        )


@dataclass(frozen=True)
class KeyAdvice:
    """The rule's word on one key.

    Attributes:
        standing: `confirmed` and `prior` for the adopted config, `default` for the default; None without a verdict.
        best: The adopted config, None with any other standing.
        verdicts: The verdicts of the key's jobs.
        reason: The reason, in words.
    """

    standing: Standing | None
    best: Judged | None
    verdicts: KeyVerdicts
    reason: str

    @property
    def precedence(self) -> tuple[bool, float]:
        """Sort key among machines that all match, the highest being the answer: confirmed, then the newest verdict."""
        newest = self.verdicts.newest
        return self.standing == "confirmed", -1.0 if newest is None else newest.unix_s


def advice_on(best: Judged | None, adopters: Collection[str], verdicts: KeyVerdicts) -> KeyAdvice:
    """Return the rule's answer for a key.

    Args:
        best: The best config that paired tests adopted and whose votes hold; None without one.
        adopters: Reporters whose paired tests adopted it; those whose newest verdict keeps the default no longer count.
        verdicts: The verdicts of the key's jobs.
    """
    newest, kept = verdicts.newest, len(verdicts.keepers)
    holding = len(set(adopters) - verdicts.keepers)
    if best is not None and (newest is None or newest.is_adopted or _is_upheld(newest, holding, kept)):
        if best.is_confirmed and holding >= MIN_REPORTERS and holding > kept:
            return KeyAdvice("confirmed", best, verdicts, reason_of(best))
        return KeyAdvice("prior", best, verdicts, _prior_reason(best, verdicts))
    if not verdicts.kept:
        return KeyAdvice(None, None, verdicts, "no job of this key came to a verdict that paired tests uphold")
    return KeyAdvice("default", None, verdicts, default_reason(verdicts))


def _is_upheld(newest: Decision, holding: int, kept: int) -> bool:
    """Tell whether an adoption holds against a newest verdict that keeps the default."""
    return holding >= max(1, kept) and (holding >= MIN_REPORTERS or not newest.is_trusted_job)


def default_reason(verdicts: KeyVerdicts) -> str:
    """Return in words why the default is the answer for a key with verdicts."""
    counts = counted(verdicts.kept, "job") + (" keeps" if verdicts.kept == 1 else " keep") + " the default"
    others = f", {counted(verdicts.adopted, 'job')} adopted a config" if verdicts.adopted else ""
    if verdicts.newest is not None and verdicts.newest.is_adopted:
        return f"the default: no config that was adopted on this key is upheld by paired tests here ({counts}{others})"
    return f"the newest verdict on this key keeps the default ({counts}{others})"


def evidence_of(row: Judged, age_s: float, *, has_gain: bool) -> Evidence:
    """Return the evidence for a config.

    Args:
        row: The config's.
        age_s: Seconds since its newest result.
        has_gain: Whether its gain is stated: only where it is confirmed, on the key that was asked for.
    """
    return Evidence(
        trials=row.trials,
        jobs=row.jobs,
        reporters=row.reporters,
        adopted=row.adopted,
        opposed=row.opposed,
        trusted_jobs=row.trusted_jobs,
        speedup=row.speedup if has_gain else None,
        ci_low=row.ci_low if has_gain else None,
        ci_high=row.ci_high if has_gain else None,
        ci_level=CI_LEVEL if has_gain else None,
        age_s=max(age_s, 0.0),
        baseline=None if row.baseline_values is None else dict(row.baseline_values),
    )


def reason_of(row: Judged) -> str:
    """Return in words why a config is confirmed, or a prior."""
    by = _counted_reporters(row)
    if row.is_confirmed:
        return f"confirmed: adopted in paired tests of {by}"
    if not row.adopted:
        return "windows on this key were faster than those of the baseline beside them, and nobody tested it"
    if not row.is_over_default:
        over = "over another baseline than the default"
        return f"prior: adopted in paired tests of {by}, {over}; a gain is confirmed over the default alone"
    opposed = f", and {counted(row.opposed, 'reporter')} found no gain" if row.opposed else ""
    if row.is_supported:
        return (
            f"prior: adopted in paired tests of {by}{opposed}; as many adopted another config: the first one is named"
        )
    return f"prior: adopted in paired tests of {by}{opposed}; confirmed takes {MIN_REPORTERS} that agree"


def _prior_reason(best: Judged, verdicts: KeyVerdicts) -> str:
    if not best.is_confirmed:
        return reason_of(best)
    kept = counted(len(verdicts.keepers), "reporter")
    return (
        f"prior: adopted in paired tests of {_counted_reporters(best)}; the newest verdict of {kept} keeps the default"
    )


def _counted_reporters(row: Judged) -> str:
    """Return in words how many reporters adopted a config, and the sense in which they are independent."""
    count, trusted = row.adopted, row.trusted_jobs
    if not trusted:
        return counted(count, "token")
    if trusted == row.reporters:
        return f"{counted(count, 'job')}, which count one by one" if count > 1 else "1 job"
    return f"{counted(count, 'reporter')}, tokens and jobs that count one by one"
