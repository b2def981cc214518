# SPDX-License-Identifier: Apache-2.0
"""The options of `ringtune recommend`: unknown targets and hardware are refused before the service is asked."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ringtune.commands.service_commands import push, recommend
from ringtune.errors import ConfigError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "foo"}, "--target foo is not known; known are ringtune, openmpi, mpich, nccl, horovod"),
        ({"hardware": "foo"}, "--hardware foo is no fingerprint; give one as ringtune doctor --fingerprint prints it"),
    ],
)
def test_an_unknown_target_or_hardware_is_refused(options: Mapping[str, Any], said: str) -> None:
    """A misspelt engine or fingerprint is an error, not the default config."""
    with pytest.raises(ConfigError, match=said):
        recommend(model="m", world_size=2, **options)


def test_a_run_that_tuned_a_command_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service keeps runs of engines only: the text says so, and no request is sent."""
    run = SimpleNamespace(run=SimpleNamespace(key={"layout": []}), run_id="job")
    monkeypatch.setattr("ringtune.tuner.read_log", lambda _: SimpleNamespace(bad_line_count=0, runs=[run]))
    monkeypatch.setattr("ringtune.tuning.service_link.results.first_runs", lambda runs: runs)

    code = push(logs=[Path("tune.jsonl")], service_url="http://127.0.0.1:1")

    assert 1 == code
    assert "run 'job' tuned a command; the service keeps runs of engines only" in capsys.readouterr().err


def test_ids_and_reasons_of_others_are_printed_without_escape_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log's run id and the service's reason reach the terminal as text, each in its own line."""
    foreign = "a\x1b]0;title\x07\nforged"
    run = SimpleNamespace(key={"layout": [2]})
    log = SimpleNamespace(run=run, run_id=foreign, samples=[], adoption=None, result=None, end=None)
    stored = SimpleNamespace(new=1, same=0, quarantined=0, reason=foreign)
    monkeypatch.setattr("ringtune.tuner.read_log", lambda _: SimpleNamespace(bad_line_count=0, runs=[log]))
    monkeypatch.setattr("ringtune.tuner.logs.records.record_to_json", lambda _: {})
    monkeypatch.setattr("ringtune.client.ServiceClient.push_run", lambda *_: stored)

    push(logs=[Path("tune.jsonl")], service_url="http://127.0.0.1:1")

    output = capsys.readouterr()
    shown = "a\\x1b]0;title\\x07\\nforged"
    assert f"tune.jsonl: run {shown}: 1 new result, 0 there before, 0 kept and not used\n" == output.out
    assert f"tune.jsonl: run {shown}: {shown}\n" == output.err
