# SPDX-License-Identifier: Apache-2.0
"""Jobs whose service is away, slow or broken: they tune as if there were none, end in time, and lose no result."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from ringtune.tuning.service_link import breaker, report_sender
from ringtune.tuning.service_link.first_config import START_LIMIT_S
from ringtune.tuning.service_link.report_sender import CLOSE_LIMIT_S
from ringtune.tuning.service_link.results import trial_uuid
from tests.integration.service_link.deliveries import spooled, trial_ids
from tests.integration.service_link.jobs import (
    GRADIENTS,
    Notes,
    connect,
    run_job,
    run_settings,
    tuned_records,
    undisturbed,
)
from tests.integration.service_link.servers import (
    Ledger,
    always,
    black_hole,
    closed_port,
    http_reply,
    serving,
    trickle,
)
from tests.waiting import wait_until

WORDS = 3
"""Requests of a job beside its results: the study's announcement, the job's start, and its decision."""
SLACK_S = 45.0
"""Seconds that two busy cores may add, the tuning included; a byte a second would take longer."""
DEFAULT = http_reply(b'{"config": {}, "source": "default", "target": "ringtune", "is_prior": false}')
BUSY = http_reply(b"", "429 Too Many Requests", "Retry-After: 30\r\n")
BUSY_FOR_NO_TIME = http_reply(b"", "429 Too Many Requests", "Retry-After: 0\r\n")
BAD_SERVICES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "black hole": lambda: serving(black_hole),
    "a byte a second": lambda: serving(trickle(DEFAULT)),
    "refused": lambda: nullcontext(closed_port()),
    "error": lambda: serving(always(http_reply(b"", "500 Internal Server Error"))),
    "too busy": lambda: serving(always(BUSY)),
    "no access": lambda: serving(always(http_reply(b'{"detail": "no token"}', "401 Unauthorized"))),
    "no service": lambda: serving(always(http_reply(b"<html>hello</html>"))),
    "elsewhere": lambda: serving(always(http_reply(b"", "307 Temporary Redirect", "Location: http://a.b/\r\n"))),
}


@pytest.mark.parametrize("name", BAD_SERVICES)
def test_a_bad_service_costs_neither_the_run_nor_a_result(name: str, tmp_path: Path) -> None:
    """The run is the one without a service, start and end are bounded, and the spool holds every window."""
    notes = Notes()
    expected = undisturbed()
    with BAD_SERVICES[name]() as url:
        link = connect(url, tmp_path, notes)

        began_s = time.monotonic()
        job = run_job(link, notes)
        took_s = time.monotonic() - began_s

        assert expected.result == job.result
        assert took_s < START_LIMIT_S + CLOSE_LIMIT_S + SLACK_S
        assert 1 <= len(notes.warnings) <= 2, notes.warnings
        assert len(trial_ids(job.records)) + WORDS == len(spooled(tmp_path, url))


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let couriers collect and pause for a moment only."""
    monkeypatch.setattr(report_sender, "LINGER_S", 0.01)
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.01)


@pytest.mark.usefixtures("hurried", "patient")
def test_a_later_job_delivers_what_an_earlier_one_could_not(tmp_path: Path) -> None:
    """Each window once, and the spool is empty."""
    ledger, url, notes = Ledger(), closed_port(), Notes()
    first = run_job(connect(url, tmp_path, notes), notes)
    assert len(trial_ids(first.records)) + WORDS == len(spooled(tmp_path, url))

    with serving(ledger, port=int(url.rpartition(":")[2])):
        link = connect(url, tmp_path, notes)
        link.report_log().write(tuned_records()[0])
        wait_until(lambda: not spooled(tmp_path, url))
        link.close()

    assert trial_ids(first.records) == set(ledger.results)
    assert [list(GRADIENTS)] == [study["gradient_bytes"] for study in ledger.studies if "gradient_bytes" in study]


@pytest.mark.usefixtures("hurried", "patient")
def test_a_service_that_comes_and_goes_has_each_window_once(tmp_path: Path) -> None:
    """Errors, "not now", and answers that are lost after the results were stored."""
    ledger, notes = Ledger(), Notes()
    ledger.failures = [http_reply(b"", "503 Service Unavailable"), BUSY_FOR_NO_TIME, b"nonsense\r\n\r\n"]
    ledger.loses_replies = 2
    with serving(ledger) as url:
        link = connect(url, tmp_path, notes)
        log = link.report_log()
        for record in tuned_records():
            log.write(record)
        wait_until(lambda: not spooled(tmp_path, url))
        link.close()

    assert trial_ids(tuned_records()) == set(ledger.results)
    assert 1 == len(notes.warnings), notes.warnings


@pytest.mark.usefixtures("patient")
def test_a_bad_result_costs_itself_alone(tmp_path: Path) -> None:
    """A batch that is refused as a whole is halved until the bad one is found; the user gets a warning."""
    ledger, notes = Ledger(), Notes()
    bad = trial_uuid("0" * 32, 3)
    ledger.refuses = {bad}
    with serving(ledger) as url:
        job = run_job(connect(url, tmp_path, notes), notes, run_settings(run_id="0" * 32))

    assert trial_ids(job.records) - {bad} == set(ledger.results)
    assert [] == spooled(tmp_path, url)
    (warning,) = notes.warnings
    assert "1 were refused" in warning
    assert "a bad result" in warning


@pytest.mark.usefixtures("hurried", "patient")
def test_a_service_that_is_too_busy_is_left_alone(tmp_path: Path) -> None:
    """A busy service is left alone for as long as it asks."""
    ledger, notes = Ledger(), Notes()
    ledger.failures = [BUSY] * 9
    with serving(ledger) as url:
        link = connect(url, tmp_path, notes)
        link.report_log().write(tuned_records()[0])
        wait_until(lambda: ledger.calls > 0)
        time.sleep(0.3)

        assert 1 == ledger.calls
        link.close()
