# SPDX-License-Identifier: Apache-2.0
"""Knobs that a version of the engine adds, in rows that were stored before: they were measured under the defaults.

Spaces and configs of the engine's studies get the knobs, and the digests that follow from them; the summaries are
derived anew. So a result that is sent again is the same result, and one config has one text, whatever version told it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

OLD_CI_LEVEL = 0.95
BODY = ("speedup", "ci_low", "ci_high", "pairs", "job_id", "run_id", "phase", "config", "score_bytes_per_s")
TIMES = ("median_step_ms", "mad_step_ms", "mean_step_ms", "steps", "void_reason")
CHUNK = 500


Knobs = Mapping[str, Mapping[str, Any]]
"""Knobs by name, as search spaces describe them."""


def add_knobs(knobs: Knobs) -> None:
    """Add the knobs to the texts that lack one."""
    connection = op.get_bind()
    for study_id, space in _rows("studies", ["study_id", "space"], "target = 'ringtune'", by="study_id"):
        text = _with_parameters(space, knobs)
        if text != space:
            _set("studies", {"study_id": study_id}, {"space": text})
    for study_id in (
        connection.execute(sa.text("SELECT study_id FROM studies WHERE target = 'ringtune'")).scalars().all()
    ):
        connection.execute(sa.text("DELETE FROM queued_suggestions WHERE study_id = :study"), {"study": study_id})
        _complete_trials(study_id, knobs)
        _complete_reports(study_id, knobs)


def _complete_trials(study_id: str, knobs: Knobs) -> None:
    for trial_id, config in _rows("trials", ["trial_id", "config"], _lacking(knobs), by="trial_id", study=study_id):
        text = _with_knobs(config, knobs)
        key = {"study_id": study_id, "trial_id": trial_id}
        _set("trials", key, {"config": text, "config_digest": _digest(text)})


def _complete_reports(study_id: str, knobs: Knobs) -> None:
    names = ["number", *BODY, *TIMES, "valid", "ci_level"]
    for row in _rows("reports", names, _lacking(knobs), by="number", study=study_id):
        columns = dict(zip(names, row, strict=True))
        number, level = columns.pop("number"), columns.pop("ci_level")
        text = _with_knobs(columns["config"], knobs)
        body = {**columns, "config": text, "valid": bool(columns["valid"])}
        if level is not None and level != OLD_CI_LEVEL:
            body["ci_level"] = level
        new = {"config": text, "config_digest": _digest(text), "body_digest": _digest(_canonical(body))}
        _set("reports", {"number": number}, new)


def _lacking(knobs: Knobs) -> str:
    return "(" + " OR ".join(f"config NOT LIKE '%\"{name}\"%'" for name in knobs) + ")"


def _rows(
    table: str, names: list[str], condition: str, *, by: str, study: str | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order of a column, a few at a time, for they are changed meanwhile."""
    own = "" if study is None else "study_id = :study AND "
    after: object = None
    while True:
        rest = "" if after is None else f" AND {by} > :after"
        query = f"SELECT {by}, {', '.join(names)} FROM {table} WHERE {own}{condition}{rest} ORDER BY {by} LIMIT {CHUNK}"  # noqa: S608
        values = {"study": study} | ({} if after is None else {"after": after})
        found = op.get_bind().execute(
            sa.text(query), {name: value for name, value in values.items() if value is not None}
        )
        rows = [tuple(row) for row in found]
        if not rows:
            return
        yield from (row[1:] for row in rows)
        after = rows[-1][0]


def _set(table: str, key: dict[str, Any], values: dict[str, Any]) -> None:
    changes = ", ".join(f"{name} = :{name}" for name in values)
    this = " AND ".join(f"{name} = :{name}" for name in key)
    op.get_bind().execute(sa.text(f"UPDATE {table} SET {changes} WHERE {this}"), {**values, **key})  # noqa: S608


def _with_knobs(config: str, knobs: Knobs) -> str:
    defaults = {name: knob["default"] for name, knob in knobs.items()}
    return _canonical({**defaults, **json.loads(config)})


def _with_parameters(space: str, knobs: Knobs) -> str:
    known = json.loads(space)
    names = {parameter["name"] for parameter in known["parameters"]}
    missing = {name: knob for name, knob in knobs.items() if name not in names}
    if not missing:
        return space
    parameters = [*known["parameters"], *({"name": name, **knob} for name, knob in missing.items())]
    fixed = {**known["fixed"], **{name: knob["default"] for name, knob in missing.items()}}
    return _canonical({"parameters": parameters, "fixed": fixed})


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
