# SPDX-License-Identifier: Apache-2.0
"""A walk through the pages with real jobs: start the service, tune a job against it, watch it live, open the report.

The jobs reduce gradients without computing: the cores are left to the browser. With WEB_SCREENSHOTS=FOLDER they are
those of the tutorial, with its budget, and every view is kept in every look.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from job import REPOSITORY, RINGTUNE, ExampleJob
from ringtune.tuner.review import review_log
from tests.e2e.browsing import Visit, visiting
from tests.e2e.commands import run_ringtune
from tests.e2e.web_service import WebService, web_service
from tests.e2e.web_views import LOOKS, keep_picture, views_of

pytestmark = pytest.mark.timeout(1200)
PICTURES = os.environ.get("WEB_SCREENSHOTS")
QUICK = {"AUTOTUNE_MAX_SAMPLES": "6", "AUTOTUNE_STEPS_PER_SAMPLE": "35", "AUTOTUNE_WARMUP_STEPS": "20"}
"""Some 500 steps of 10 ms: the job lasts longer than results linger, and reports more than once."""
USUAL = {"AUTOTUNE_MAX_SAMPLES": "12", "AUTOTUNE_STEPS_PER_SAMPLE": "35"}
REDUCING = ("-m", "tests.integration.programs.tuned", "12", "300", "marked")
"""Twelve gradients a step, until the tuner has decided."""
JOB_S = 540.0
"""After so many seconds a job of the walk is taken to hang."""
ROWS = "[data-live=results] tbody tr"


@dataclass(frozen=True)
class Walked:
    """The state after the walk: a service with two studies of real jobs, and the first job's log."""

    service: WebService
    log: Path
    followed: tuple[int, ...]


@contextmanager
def tuning_job(service: WebService, log: Path, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a job of two ranks that begins with a poor config, tunes and reports; it is ended if it still runs."""
    settings: Mapping[str, str] = {
        "AUTOTUNE": "1",
        "AUTOTUNE_MODEL": "digits",
        "AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=20",
        "AUTOTUNE_LOG": str(log),
        "AUTOTUNE_SERVICE_URL": service.url,
        "RINGTUNE_ALGORITHM_TABLE": "default",
        "TEST_COMPUTE_MS": "10",  # the step of a job that does compute is longer anyway
        **(USUAL if PICTURES else QUICK),
        **variables,
    }
    learning = ExampleJob("examples/digits.py", ["--epochs", "1", "--train-for-tuner"], 2, settings)
    reducing = [RINGTUNE, "run", "-np", "2", sys.executable, *REDUCING]
    command = learning.command(log.with_suffix(".report")) if PICTURES else reducing
    with said_by(log).open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=learning.environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def said_by(log: Path) -> Path:
    """Return where the words of a job are, by its log."""
    return log.with_suffix(".said")


def study_of(service: WebService, process: "subprocess.Popen[bytes]") -> str:
    """Wait until a job has announced itself; returns the address of its study."""
    end_s = time.monotonic() + JOB_S
    while time.monotonic() < end_s and process.poll() is None:
        items = service.client.get("/v1/studies").json()["items"]
        if items:
            return f"{service.url}/studies/{items[0]['id']}"
        time.sleep(0.1)
    raise AssertionError("no study came up")


@contextmanager
def held_up(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Stop a job, its ranks included, for as long as this lasts: a quick one would be over before anybody looks."""
    job = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in job:
        member.suspend()
    try:
        yield
    finally:
        for member in job:
            member.resume()


def follow(seen: Visit, process: "subprocess.Popen[bytes]") -> tuple[int, ...]:
    """Watch a study's page, which is not loaded again, until its job has ended; returns how many results it showed.

    Each number is one that the page had at some time, in their order.
    """
    page = seen.page
    counts = [page.locator(ROWS).count()]
    end_s = time.monotonic() + JOB_S
    while process.poll() is None:
        assert time.monotonic() < end_s, "the job does not end"
        count = page.locator(ROWS).count()
        if count != counts[-1]:
            counts.append(count)
        page.wait_for_timeout(200)
    assert page.evaluate("window.isKept")
    return tuple(counts)


def stored_results(service: WebService) -> int:
    """Return the number of results that the service has, of all studies."""
    return service.client.get("/v1/export").text.count('"type":"result"')


@pytest.fixture(scope="module")
def walked(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    """Start a service, tune two real jobs against it, and watch the first one in the browser while it tunes."""
    folder = tmp_path_factory.mktemp("walk")
    first, second = folder / "tuning.jsonl", folder / "over_tcp.jsonl"
    with web_service(folder) as service:
        with visiting(browser) as seen:
            page = seen.go(f"{service.url}/studies").page
            assert "No studies yet" in page.locator("main").inner_text()
            keep_picture(seen, PICTURES, "studies_empty")
            with tuning_job(service, first) as process:
                study = study_of(service, process)
                with held_up(process):
                    seen.go(study)
                    page.wait_for_selector("#live:is([data-state=on], [data-state=new])")
                    page.evaluate("window.isKept = true")
                    shown = page.locator(ROWS).count()
                page.wait_for_function(f"count => document.querySelectorAll('{ROWS}').length > count", arg=shown)
                keep_picture(seen, PICTURES, "study_live")
                followed = (shown, *follow(seen, process))
            assert 0 == process.returncode, said_by(first).read_text(encoding="utf-8")
            # What the job delivered last may be on its way to the page, which shows the newest hundred.
            page.wait_for_function(
                f"count => document.querySelectorAll('{ROWS}').length === count", arg=min(stored_results(service), 100)
            )
            assert ([], []) == (seen.complaints, seen.violations)
        with tuning_job(service, second, RINGTUNE_TRANSPORT="tcp") as process:
            process.wait(JOB_S)
        assert 0 == process.returncode, said_by(second).read_text(encoding="utf-8")
        yield Walked(service, first, followed)


def test_a_real_job_is_followed_live(walked: Walked) -> None:
    """Results came onto the page, which was there before them, and none went again; at the end it had all."""
    assert walked.followed[0] < walked.followed[-1]
    assert sorted(walked.followed) == list(walked.followed)


def test_two_real_jobs_stand_beside_each_other(browser: Any, walked: Walked) -> None:
    """One model on two kinds of hardware: the ranks of the second job met over a network."""
    with visiting(browser) as seen:
        views = views_of(walked.service.client)

        seen.go(walked.service.url + views["hardware_of_a_model"])
        assert ["digits on all hardware"] == seen.page.locator("h1").all_inner_texts()
        assert 2 == seen.page.locator("tbody th a[href^='/studies/']").count()
        seen.go(walked.service.url + views["compare"])
        assert 2 == seen.page.locator(".side-by-side thead th").count()
        assert ([], []) == (seen.complaints, seen.violations)


@pytest.mark.long
@pytest.mark.parametrize("look", LOOKS if PICTURES else ["desktop"])
def test_every_view_of_real_jobs_is_whole(look: str, browser: Any, walked: Walked) -> None:
    """No view complains, asks for anything elsewhere, or is wider than its window."""
    scheme, size = LOOKS[look]
    with visiting(browser, scheme=scheme, size=size) as seen:
        for name, path in views_of(walked.service.client).items():
            seen.go(walked.service.url + path)

            assert ([], []) == (seen.complaints, seen.violations), name
            assert seen.overflow <= 0, name
            keep_picture(seen, PICTURES, f"{name}_{look}")
        assert [] == [url for url in seen.requests if not url.startswith((walked.service.url, "data:", "blob:"))]


def test_the_first_job_s_report_opens(browser: Any, walked: Walked) -> None:
    """The verdict is the log's, and the figures are drawn from a file, without any server."""
    made = run_ringtune("review", str(walked.log), "--html", str(walked.log.with_suffix(".html")))
    assert 0 == made.returncode, made.stderr
    (run,) = review_log(walked.log).runs

    with visiting(browser) as seen:
        seen.go(walked.log.with_suffix(".html").as_uri())
        text = seen.page.locator("main").inner_text()
        keep_picture(seen, PICTURES, "report")

        assert run.verdict.partition(":")[0].lower() in text.lower()
        assert seen.page.locator("[data-figure] svg.main-svg").count() >= 3
        assert [] == seen.complaints
