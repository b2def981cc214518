# SPDX-License-Identifier: Apache-2.0
"""Names of the earlier runs that a search begins with, as one phrase for people."""

from collections import Counter
from collections.abc import Sequence

OTHERS = "another"
"""Word in the name of runs that another model or machine had; their samples are a weak prior."""


def origins_text(origins: Sequence[str]) -> str:
    """Return names of runs as one phrase, equal ones counted: "2 finished runs of other models, as a weak prior"."""
    counted = Counter(origins)
    text = " and ".join(origin if count == 1 else _plural(origin, count) for origin, count in counted.items())
    return f"{text}, as a weak prior" if all(OTHERS in origin for origin in counted) else text


def _plural(origin: str, count: int) -> str:
    """Return the name of several runs, from that of each: "a finished run of another model"."""
    for article in ("a ", "an "):
        origin = f"{count} {origin.removeprefix(article)}" if origin.startswith(article) else origin
    for one, several in ((" run", " runs"), ("another model", "other models"), ("another hardware", "other hardware")):
        origin = origin.replace(one, several, 1)
    return origin
