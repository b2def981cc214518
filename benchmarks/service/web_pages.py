# SPDX-License-Identifier: Apache-2.0
"""Load times of the service's pages with 10,000 studies stored: `python -m benchmarks.service.web_pages`.

200 of the studies have results of a team's jobs, 250 each. The others have only the summaries, which are all that lists
read. Each first view has a new browser with an empty cache, so that plotly.js is loaded too.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import httpx
from rich.console import Console
from rich.table import Table
from sqlalchemy import Connection, insert, select

from ringtune.service.store import Database
from ringtune.service.store import tables as t

from .load.filling import TRIALS_PER_STUDY, Known, fill, known_studies, study_row
from .load.server import serving

STUDIES = 10_000
WITH_RESULTS = 200
PART = 500
ROUNDS = 7
LIMIT_MS = 120_000
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
IS_DRAWN = "() => !document.querySelector('[data-figure]') || document.documentElement.dataset.drawn !== undefined"
PAINTED_MS = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def paths_of(known: Sequence[Known]) -> dict[str, str]:
    """Return the views that are measured, by name."""
    first, second = known[0], known[1]
    ids = urlencode([("study", first.study_id), ("study", second.study_id)])
    return {
        "studies": "/studies",
        "studies, the last page by speed-up": f"/studies?sort=speedup&page={len(known) // 50}",
        "studies, searched": f"/studies?q={first.key.model[:6]}",
        "studies, filtered": "/studies?finding=confirmed",
        "one study": f"/studies/{first.study_id}",
        "comparison": f"/compare?{ids}",
        "hardware": "/hardware",
        "one model on all hardware": f"/hardware?model={first.key.model}",
        "recommendation": f"/recommendations?{first.query}",
    }


def store(database: Database, known: Sequence[Known]) -> None:
    """Store the studies: the first with results, the others with the summaries of one of those."""
    whole = known[:WITH_RESULTS]
    fill(database, whole, lambda _: None)
    for start in range(len(whole), len(known), PART):
        part = known[start : start + PART]
        with database.writing() as connection:
            connection.execute(insert(t.studies), [study_row(study) for study in part])
            for table in (t.job_summaries, t.config_summaries):
                _copy_rows(connection, table, whole, part)


def _copy_rows(connection: Connection, table: Any, whole: Sequence[Known], part: Sequence[Known]) -> None:
    """Give each study of a part the rows that one of the whole studies has."""
    by_study: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(select(table).where(table.c.study_id.in_([s.study_id for s in whole]))).mappings():
        by_study.setdefault(row["study_id"], []).append(dict(row))
    rows = [
        {**row, "study_id": study.study_id}
        for number, study in enumerate(part)
        for row in by_study[whole[number % len(whole)].study_id]
    ]
    connection.execute(insert(table), rows)


def made_ms(url: str, paths: Mapping[str, str]) -> dict[str, list[float]]:
    """Return how long the service takes to make each page, milliseconds, the first time first."""
    found: dict[str, list[float]] = {name: [] for name in paths}
    with httpx.Client(base_url=url, headers={"accept": "text/html"}, timeout=60.0) as client:
        for _ in range(ROUNDS):
            for name, path in paths.items():
                began_s = time.perf_counter()
                client.get(path).raise_for_status()
                found[name].append((time.perf_counter() - began_s) * 1e3)
    return found


def shown_ms(url: str, paths: Mapping[str, str]) -> dict[str, list[tuple[float, float]]]:
    """Return when something is on the screen of a new browser, and when all is, figures included, milliseconds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in paths}
    with started_browser() as browser:
        for _ in range(ROUNDS):
            for name, path in paths.items():
                context = browser.new_context()
                page = context.new_page()
                page.set_default_timeout(LIMIT_MS)
                began_s = time.perf_counter()
                page.goto(url + path)
                page.wait_for_function(IS_DRAWN)
                whole_ms = (time.perf_counter() - began_s) * 1e3
                painted_ms = page.evaluate(PAINTED_MS)
                found[name].append((whole_ms if painted_ms is None else painted_ms, whole_ms))
                context.close()
    return found


@contextmanager
def started_browser() -> Iterator[Any]:
    """Start Debian's chromium.

    Raises:
        SystemExit: If there is none.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (the extra test has it)

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium: make system-packages installs it")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


def main() -> None:
    """Fill a database, serve it, and print how long its pages take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES)
    known = known_studies(parser.parse_args().studies * TRIALS_PER_STUDY)
    with tempfile.TemporaryDirectory(prefix="ringtune-bench-") as name:
        url = f"sqlite:///{Path(name) / 'service.sqlite3'}"
        database = Database.open(url)
        store(database, known)
        database.close()
        paths = paths_of(known)
        with serving(url, Path(name), {}) as server:
            address = f"http://127.0.0.1:{server.port}"
            made, shown = made_ms(address, paths), shown_ms(address, paths)
    _print(len(known), made, shown)


def _print(count: int, made: Mapping[str, list[float]], shown: Mapping[str, list[tuple[float, float]]]) -> None:
    title = f"{count:,} studies; the service, then a browser that has nothing in its cache; ms, median of {ROUNDS}"
    table = Table("view", "first made", "made", "something shown", "all drawn", "slowest", title=title)
    for name, times in made.items():
        painted, whole = zip(*shown[name], strict=True)
        figures = (times[0], median(times), median(painted), median(whole), max(whole))
        table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
