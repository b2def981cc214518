# SPDX-License-Identifier: Apache-2.0
"""`ringtune recommend` and `ringtune push` where they cannot ask the service, or where it is away."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.errors import ConfigError, StoreError
from ringtune.tuner import StudyStore
from tests.integration.service_link.commands import ringtune
from tests.integration.service_link.jobs import KEY, run_record, tuned_records
from tests.integration.service_link.servers import Ledger, closed_port, recommendation_reply, serving

ASKED = ("recommend", "--model", "known", "--world-size", "2", "--hardware", "any")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a service, and with one finished run."""
    path = tmp_path / "studies.jsonl"
    monkeypatch.setenv("AUTOTUNE_CACHE", str(path))
    monkeypatch.delenv("AUTOTUNE_SERVICE_URL", raising=False)
    StudyStore(path).keep([replace(run_record(), model_name="known"), *tuned_records()[1:]])
    return path


def test_the_machine_s_own_runs_answer_where_there_is_no_service(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In all formats alike."""
    printed = {}
    for output in ("json", "env", "horovod", "table"):
        assert 0 == ringtune(*ASKED, "--format", output, "--cache", str(cache))
        printed[output] = capsys.readouterr().out
    offer = json.loads(printed["json"])

    assert ("exact", list(KEY["layout"]), True) == (offer["source"], offer["key"]["layout"], offer["is_prior"])
    assert f"export RINGTUNE_CYCLE_MS={offer['config']['cycle_ms']}" in printed["env"].splitlines()
    assert f"export HOROVOD_CYCLE_TIME={offer['config']['cycle_ms']}" in printed["horovod"].splitlines()
    for text in (printed["env"], printed["horovod"], printed["table"]):
        assert "measured on ringtune" in text
        assert "prior" in text


@pytest.mark.usefixtures("cache")
def test_a_model_that_nobody_knows_is_an_error_that_names_those_there_are() -> None:
    """Not a table of defaults; the cache is the environment's."""
    with pytest.raises(StoreError, match=r"'unknown'; there are: known"):
        ringtune("recommend", "--model", "unknown", "--world-size", "2", "--format", "env")


@pytest.mark.usefixtures("cache")
def test_this_machine_is_the_hardware_unless_another_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Results of other machines are found with --hardware any alone; without it the answer is the default."""
    assert 0 == ringtune("recommend", "--model", "known", "--world-size", "2", "--format", "json")
    here = json.loads(capsys.readouterr().out)
    assert 0 == ringtune(*ASKED, "--format", "json")
    anywhere = json.loads(capsys.readouterr().out)

    assert ("default", "exact") == (here["source"], anywhere["source"])


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("recommend", "--model", "m", "--world-size", "2", "--format", "yaml"), ConfigError, "table, json"),
        (("recommend", "--model", "m", "--world-size", "2", "--local-size", "3"), ConfigError, "more than"),
        (("recommend", "--model", "m", "--world-size", "2", "--service-url", "nowhere"), ConfigError, "HOST"),
        (("push", "tune.jsonl"), ConfigError, "AUTOTUNE_SERVICE_URL"),
        (("push", "missing.jsonl", "--service-url", "http://a"), ConfigError, "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], error: type[Exception], text: str) -> None:
    """An impossible command ends in one paragraph with the remedy."""
    with pytest.raises(error, match=text):
        ringtune(*arguments)


@pytest.mark.usefixtures("cache")
def test_a_service_that_is_away_is_not_replaced_by_another_answer() -> None:
    """A query to an absent service is an error, for its caller wants this service's answer."""
    with pytest.raises(StoreError, match="did not answer"):
        ringtune(*ASKED, "--service-url", closed_port())


def test_an_illegal_or_ambiguous_answer_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """No foreign text comes into a shell, whatever a service answers."""
    ledger = Ledger()
    with serving(ledger) as url:
        ledger.recommendation = recommendation_reply({"fusion_bytes": "$(reboot)"})
        with pytest.raises(StoreError, match="not legal"):
            ringtune(*ASKED, "--service-url", url, "--format", "env")
        candidate = {"model_fingerprint": "cd" * 32, "model_name": "known", "trials": 3}
        ledger.recommendation = {**recommendation_reply({}, "default"), "candidates": [candidate, candidate]}
        with pytest.raises(StoreError, match="cdcd"):
            ringtune(*ASKED, "--service-url", url)

    assert "" == capsys.readouterr().out


def test_a_log_without_a_run_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log without a run reports none."""
    path = tmp_path / "foreign.txt"
    path.write_text("hello\n")

    assert 1 == ringtune("push", str(path), "--service-url", closed_port())

    assert "no run in it" in capsys.readouterr().err
