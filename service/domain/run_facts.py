# SPDX-License-Identifier: Apache-2.0
"""Facts of a job from its whole log: the first record and the last. Facts that cannot be shown are left out."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ringtune.service.errors import InvalidRequest
from ringtune.service.store.rows import SaidState
from ringtune.tuner.logs.reader import RunLog

from .jobs import MAX_COMMIT, MAX_TAGS, MAX_VERDICT, JobReport
from .machines import MAX_KINDS, MAX_TEXT, MachineKind

Value = TypeVar("Value")


def facts_of(log: RunLog) -> JobReport:
    """Return the facts of a job in its run's log; a run without a result ended early, or goes on elsewhere."""
    run, state = log.run, _state(log)
    said = log.adoption or log.end
    verdict = None if said is None else _shown(said.verdict, MAX_VERDICT)
    if run is None:
        return JobReport(state, verdict)
    tags = [tag for tag in map(_shown, run.tags or ()) if tag is not None]
    machines = [machine for machine in map(_machine, run.machines or ()) if machine is not None]
    return JobReport(
        state=state,
        verdict=verdict,
        name=_shown(run.job_name),
        tags=tuple(tags[:MAX_TAGS]),
        commit=_shown(run.commit, MAX_COMMIT),
        hardware_name=_shown(run.hardware_name),
        machines=tuple(machines[:MAX_KINDS]),
    )


def _state(log: RunLog) -> SaidState:
    if log.result is None:
        return "ended_early"
    return "adopted" if log.result.adopted else "keeping_default"


def _shown(text: str | None, most: int = MAX_TEXT) -> str | None:
    """Return a text that can be shown, cut to its limit; None for any other."""
    text = None if text is None else text.strip()[:most]
    return text if text and text.isprintable() else None


def _machine(facts: Mapping[str, Any]) -> MachineKind | None:
    speed = facts.get("link_bits_per_s")
    counts = ("hosts", "cores", "numa_nodes")
    try:
        machine = MachineKind(
            cpu_model=_text(facts["cpu_model"]),
            **{name: _whole(facts[name]) for name in counts},
            gpus=tuple(_text(name) for name in facts.get("gpus", ())),
            link_kind=None if facts.get("link_kind") is None else _text(facts["link_kind"]),
            link_bits_per_s=None if speed is None else _whole(speed),
        )
        machine.check()
    except (KeyError, TypeError, InvalidRequest):
        return None
    return machine


def _whole(value: object) -> int:
    return _of(int, value)


def _text(value: object) -> str:
    return _of(str, value)


def _of(kind: type[Value], value: object) -> Value:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
