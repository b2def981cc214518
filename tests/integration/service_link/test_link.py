# SPDX-License-Identifier: Apache-2.0
"""Tests of a job's link where there is no service, or where no file can be written."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import RunSettings, SearchSpace, engine_parameters, make_designer
from ringtune.tuner.logs.records import SuggestionRecord
from ringtune.tuner.testing import poor_baseline
from ringtune.tuning.service_link import ServiceJob, service_link
from ringtune.tuning.service_link.results import job_uuid
from tests.integration.service_link.deliveries import trial_ids
from tests.integration.service_link.jobs import SPACE, Notes, connect, run_job, tuned_records
from tests.integration.service_link.servers import Ledger, closed_port, recommendation_reply, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("patient")

JOB = ServiceJob(RunSettings(), SearchSpace(engine_parameters(), {}))


def test_without_a_service_everything_stays_as_it_is(tmp_path: Path) -> None:
    """The designer is the one that came in, and the report goes nowhere."""
    link = service_link(None, None, tmp_path, Notes())
    designer = make_designer("random", JOB.space, 0)

    assert designer is link.with_start(designer, JOB)
    link.report_log().write(tuned_records()[0])
    link.close()
    assert [] == list(tmp_path.iterdir())


def test_without_a_service_httpx_is_not_imported() -> None:
    """A job without a service does not pay for the import of httpx."""
    code = (
        "import sys, pathlib; import ringtune.tuning.service_link as s, ringtune.commands.service_commands; "
        "s.service_link(None, None, pathlib.Path(), None); print('httpx' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False" == done.stdout.strip()


@pytest.mark.parametrize(("url", "token"), [("ftp://a", None), ("http://", None), ("http://a", "two words")])
def test_what_is_malformed_is_found_before_training(url: str, token: str | None, tmp_path: Path) -> None:
    """A malformed address or token stops the job before training, as every malformed setting does."""
    with pytest.raises(ConfigError):
        service_link(url, token, tmp_path, Notes())


def test_where_nothing_can_be_written_results_are_reported_from_memory(tmp_path: Path) -> None:
    """The folder is a file: the job is warned once, and the service has every result."""
    (tmp_path / "spool").write_text("in the way")
    ledger, notes = Ledger(), Notes()
    with serving(ledger) as url:
        job = run_job(connect(url, tmp_path, notes), notes)

    assert trial_ids(job.records) == set(ledger.results)
    (warning,) = notes.warnings
    assert "lost" in warning


def test_a_job_that_ends_before_it_tunes_has_nothing_to_close(tmp_path: Path) -> None:
    """Twice is once."""
    link = connect(closed_port(), tmp_path, Notes())

    link.close()
    link.close()


def test_a_report_that_fails_costs_one_warning(tmp_path: Path) -> None:
    """A report fails here at every record but the first, for the spool is closed then; it never raises."""
    notes = Notes()
    link = connect(closed_port(), tmp_path, notes)
    log = link.report_log()
    first, *rest = tuned_records()
    log.write(first)
    link.close()

    for record in rest:
        log.write(record)

    log.close()
    assert 1 == sum("missing in the report" in warning for warning in notes.warnings)


def test_a_job_reports_its_first_run_alone(tmp_path: Path) -> None:
    """A later one is measured against the config in force then, and would count as another job's confirmation."""
    ledger = Ledger()
    first, *rest = tuned_records()
    with serving(ledger) as url:
        link = connect(url, tmp_path, Notes())
        log = link.report_log()
        for run_id in ("1" * 32, "2" * 32):
            for record in (first, *rest):
                log.write(replace(record, run_id=run_id))
        link.close()

    assert trial_ids(tuned_records()) == set(ledger.results)
    assert {job_uuid("1" * 32)} == {result["job_id"] for result in ledger.results.values()}


@pytest.mark.parametrize("is_shown_before", [True, False])
def test_the_page_of_the_job_s_study_is_named_once(is_shown_before: bool, tmp_path: Path) -> None:
    """A page is named with the verdict, or with the last word on the report where the service was slower."""
    ledger, notes = Ledger(), Notes()
    ledger.page = "/studies/" + "ab" * 16
    with serving(ledger) as url:
        link = connect(url, tmp_path, notes)
        log = link.report_log()
        for record in tuned_records():
            log.write(record)
        if is_shown_before:
            wait_until(lambda: ledger.jobs)  # they are told after the study
        named = link.study_page() if is_shown_before else None
        link.close()

    page = f"{url}{ledger.page}"
    assert (page if is_shown_before else None) == named
    assert [not is_shown_before] == [f"this job's study: {page}" in text for text in notes.infos]
    assert link.study_page() is None


def test_a_config_that_nobody_tested_is_tried_first(tmp_path: Path) -> None:
    """The answer is the default, and the search begins with the seed beside it; without one it begins on its own."""
    kept = recommendation_reply({}, source="exact") | {"standing": "default", "reason": "jobs keep the default"}
    seed = SPACE.validate({**poor_baseline(), "cycle_ms": 3.0}).to_json()
    first = []
    for offered in ({**kept, "try_first": seed}, kept):
        ledger, notes = Ledger(), Notes()
        ledger.recommendation = offered
        with serving(ledger) as url:
            job = run_job(connect(url, tmp_path, notes), notes)
        first.append(next(record for record in job.records if isinstance(record, SuggestionRecord)))
        assert any("jobs keep the default" in text for text in notes.infos)

    assert ("service", seed) == (first[0].designer, first[0].config)
    assert "service" != first[1].designer
