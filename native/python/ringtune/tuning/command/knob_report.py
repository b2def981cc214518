# SPDX-License-Identifier: Apache-2.0
"""Report on the knobs of a finished run: the ones that matter, the ones that were never varied, and the outlook.

The numbers are those of `ringtune review`: this run's records go through the same functions, and no number is computed
here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ringtune.system.counts import counted
from ringtune.tuner import Config, SearchSpace, TuningLog, readable_value
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import Record, RunRecord
from ringtune.tuner.space.parameter_types import Parameter

if TYPE_CHECKING:
    from ringtune.tuner.review import Outlook, RunReview
    from ringtune.tuner.review.sensitivity import Sensitivity

MOST_NAMED = 8
"""Knobs that matter and have a line of their own; the others share one."""
LEAST_SHOWN = 0.001
"""Smallest expected gain that is worth a number."""

Row = tuple[str, str]


class RunRecorder:
    """Log that also keeps the records of its newest run in memory, since a run may have no file.

    Attributes:
        run: The records.
    """

    def __init__(self, log: TuningLog) -> None:
        """Pass records on to `log`."""
        self._log = log
        self.run = RunLog("")

    def write(self, record: Record) -> None:
        """Keep the record, then pass it on."""
        if isinstance(record, RunRecord):
            self.run = RunLog(record.run_id)
        self.run.add(record)
        self._log.write(record)

    def close(self) -> None:
        """Close the log; idempotent."""
        self._log.close()


class WhyUnvaried(Enum):
    """Reason why a knob had one value in all launches that count; the value is a clause with the remedy."""

    IS_SET = "set in the environment: unset it for ringtune to vary it"
    HAS_ONE_VALUE = "it has one value: give it another one in its range"
    HAS_FAILED = "every launch that varied it failed: leave out of its range what cannot work"
    IS_IDLE = "it had no effect beside the other values that were tried: name it and the knobs it needs with --only"
    WAS_NOT_TRIED = "no launch varied it before the search ended: allow more launches, or vary fewer knobs with --only"


@dataclass(frozen=True)
class KnobSetting:
    """Knobs of a run as its user has set them.

    Attributes:
        space: The legal configs.
        set_by_user: Knobs that the user's environment decides.
        effective: Returns a config with the default in place of each value that has no effect beside the others.
    """

    space: SearchSpace
    set_by_user: Mapping[str, str]
    effective: Callable[[Config], Config] = lambda config: config


def knob_rows(run: "RunReview", setting: KnobSetting) -> list[Row]:
    """Return the report on a run's knobs, as rows of a name and a text.

    Args:
        run: The run, from `review_run`.
        setting: Its knobs.
    """
    from ringtune.tuner.review import analyse, outlook  # noqa: PLC0415  (numpy is slow to import)

    analysis = analyse(run)
    idle = unvaried(run, setting)
    found = [item for item in analysis.sensitivities if item.name not in idle]
    rows = _effect_rows(found, setting.space) if found else _counts(run, setting, idle)
    return [*rows, *_unvaried_rows(idle), *_outlook_rows(outlook(run, analysis))]


def unvaried(run: "RunReview", setting: KnobSetting) -> dict[str, WhyUnvaried]:
    """Return the knobs with one value in all launches that count; those that --only leaves out are not among them."""
    space = setting.space
    asked_for = [p for p in space.parameters if p.name not in space.fixed or p.name in setting.set_by_user]
    reasons = {parameter.name: _why_unvaried(parameter, run, setting) for parameter in asked_for}
    return {name: why for name, why in reasons.items() if why is not None}


def _why_unvaried(parameter: Parameter, run: "RunReview", setting: KnobSetting) -> WhyUnvaried | None:
    """Return why a knob had one value in all launches that count; None if it had several."""
    name = parameter.name
    if name in setting.set_by_user:
        return WhyUnvaried.IS_SET
    acting = [setting.effective(sample.config)[name] for sample in run.tried]
    counting = {value for value, sample in zip(acting, run.tried, strict=True) if sample.is_evidence}
    if len(counting) > 1:
        return None
    if parameter.count == 1:
        return WhyUnvaried.HAS_ONE_VALUE
    if len(set(acting)) > 1:
        return WhyUnvaried.HAS_FAILED
    is_idle = len({sample.config[name] for sample in run.tried}) > 1
    return WhyUnvaried.IS_IDLE if is_idle else WhyUnvaried.WAS_NOT_TRIED


def _effect_rows(found: "Sequence[Sensitivity]", space: SearchSpace) -> list[Row]:
    """Return a row for each knob that matters, one for all others, and one that explains an effect."""
    from ringtune.tuner.review import words  # noqa: PLC0415  (as above)
    from ringtune.tuner.review.sensitivity import MATTERS  # noqa: PLC0415

    parameters = {parameter.name: parameter for parameter in space.parameters}
    named = [item for item in found if item.finding == MATTERS][:MOST_NAMED]
    others = [item for item in found if item not in named]
    rows = [(MATTERS, _line(item, parameters[item.name])) for item in named]
    return [*rows, *([("other knobs", _text_of_all(others))] if others else []), ("effects", words.HOW)]


def _text_of_all(items: "Sequence[Sensitivity]") -> str:
    """Return the intervals of knobs and the numbers of values tried, one after another, by their findings."""
    from ringtune.tuner.review import words  # noqa: PLC0415  (as above)

    by_finding: dict[str, list[str]] = {}
    for item in items:
        text = f"{item.name} {words.short_interval(item.effect)} ({item.tried})"
        by_finding.setdefault(item.finding, []).append(text)
    texts = [f"{finding}: {', '.join(each)}" for finding, each in by_finding.items()]
    return f"{'; '.join(texts)} (in brackets: values tried)"


def _line(item: "Sensitivity", parameter: Parameter) -> str:
    from ringtune.tuner.review import words  # noqa: PLC0415  (as above)

    best, worst = readable_value(item.name, item.best), readable_value(item.name, item.worst)
    return f"{item.name}: {words.interval(item.effect)}, best {best}, worst {worst}; {_tried(item.tried, parameter)}"


def _tried(count: int, parameter: Parameter) -> str:
    """Return how many values were tried, and of how many unless they are without number."""
    if math.isinf(parameter.count):
        return f"{counted(count, 'value')} tried"
    return f"{count:,} of {counted(int(parameter.count), 'value')} tried"


def _counts(run: "RunReview", setting: KnobSetting, idle: Mapping[str, WhyUnvaried]) -> list[Row]:
    """Return the number of values of each varied knob: without a model, their effects are not known."""
    configs = {setting.effective(sample.config) for sample in run.tried if sample.is_evidence}
    free = [parameter.name for parameter in setting.space.free if parameter.name not in idle]
    tried = ", ".join(f"{name} {len({config[name] for config in configs})}" for name in free)
    return [("knobs", f"effects are not known, too few launches count; values tried: {tried}")] if tried else []


def _unvaried_rows(idle: Mapping[str, WhyUnvaried]) -> list[Row]:
    """Return a warning for each reason, with the names of its knobs."""
    names = {why: ", ".join(name for name, own in idle.items() if own is why) for why in WhyUnvaried}
    return [("warning", f"never varied: {names[why]} ({why.value})") for why in WhyUnvaried if names[why]]


def _outlook_rows(seen: "Outlook | None") -> list[Row]:
    """Return the outlook; none without an estimate."""
    if seen is None:
        return []
    launches = counted(seen.launches, "more launch")
    if seen.high < LEAST_SHOWN:
        gain = "bring nothing over the best config tried"
    else:
        gain = f"bring {_percent(seen.low)} to {_percent(seen.high)} % over the best config tried"
    return [("outlook", f"{launches} would probably {gain} (an estimate of the model)")]


def _percent(fraction: float) -> str:
    """Return a gain in percent with one digit, or with its whole number if that has more."""
    return f"{100 * fraction:.0f}" if fraction >= 0.1 else f"{100 * fraction:.1g}"
