# SPDX-License-Identifier: Apache-2.0
"""Tables of gains that are written by hand record the default that they were measured against, in a comment above."""

import json
import re
from pathlib import Path

import pytest

from ringtune.tuner import default_config

FOLDER = Path(__file__).parents[3] / "benchmarks"
RECORDED = re.compile(r"<!-- (?P<age>old |)default of (?P<layout>[\d+]+) ranks: (?P<config>\{.*\}) -->")
PAGES = ("README.md", "tuner/live/README.md", "tuner/surfaces/README.md")
"""Pages with such tables; those of `tuner/regret` are made from rows, which record it themselves."""


@pytest.mark.parametrize("page", PAGES)
def test_a_written_table_records_the_default_that_ships(page: str) -> None:
    """A table is called old exactly where another default ships by now: it is no gain over today's."""
    recorded = list(RECORDED.finditer((FOLDER / page).read_text(encoding="utf-8")))

    assert recorded, f"{page} records no default"
    for found in recorded:
        default = default_config([int(ranks) for ranks in found["layout"].split("+")])
        written = json.loads(found["config"])
        is_old = written != {name: default[name] for name in written}
        assert bool(found["age"]) == is_old, f"{page}: measure again, or call it old: {found[0]}"
