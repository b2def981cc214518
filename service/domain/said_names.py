# SPDX-License-Identifier: Apache-2.0
"""Names of models and machines: each token gives its own, once for a study, and the one that most gave is shown.

Of names that as many tokens gave, the one that was given first stays. So one token cannot rename a study that others
named, and no token that came first keeps a name to which no other agrees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from ringtune.service.store import said_names as table
from ringtune.service.store import studies
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import SaidNamesRow

NAMED = ("model_name", "hardware_name", "machines")
"""Facts that tokens name, and vote on; the machines' words go with their facts."""


def say_names(connection: Connection, study_id: str, token_id: str | None, names: Mapping[str, str | None]) -> None:
    """Keep names that a token gives in a study, but for those that it gave before.

    Args:
        connection: Connection to the database, in a transaction that writes.
        study_id: The study.
        token_id: The token; None where the service is open.
        names: Any of `model_name`, `hardware_name`, `machines` (JSON) and `machines_text`, or None.
    """
    known = table.of_token(connection, study_id, token_id)
    if is_said(known, names):
        return
    if known is None:
        known = SaidNamesRow(study_id=study_id, token_id=token_id or table.OPEN, said_unix_s=now_unix_s(connection))
    table.put(connection, replace(known, **_news(known, names)))
    elect(connection, study_id)


def is_said(known: SaidNamesRow | None, names: Mapping[str, str | None]) -> bool:
    """Tell whether a token has given a name for all that it names now."""
    return not _news(known, names)


def elect(connection: Connection, study_id: str) -> None:
    """Give a study the names that most of its tokens gave."""
    rows = table.of_study(connection, study_id)
    chosen = {name: _of_most(rows, name) for name in NAMED}
    values = {name: None if row is None else getattr(row, name) for name, row in chosen.items()}
    machines = chosen["machines"]
    words = None if machines is None else machines.machines_text
    studies.complete(connection, study_id, {**values, "machines_text": words})


def _news(known: SaidNamesRow | None, names: Mapping[str, str | None]) -> dict[str, Any]:
    return {
        name: value
        for name, value in names.items()
        if value is not None and (known is None or getattr(known, name) is None)
    }


def _of_most(rows: Sequence[SaidNamesRow], name: str) -> SaidNamesRow | None:
    """Return a row with the name that most tokens gave; rows stand in the order in which they came."""
    named = [row for row in rows if getattr(row, name) is not None]
    values = [getattr(row, name) for row in named]
    return max(named, key=lambda row: values.count(getattr(row, name)), default=None)
