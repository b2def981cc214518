# SPDX-License-Identifier: Apache-2.0
"""`AUTOTUNE=1` for programs that speak torch.distributed: no line in them is about tuning."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ringtune.identity.fingerprints import model_fingerprint
from tests.integration.forked_ranks import Forked
from tests.integration.jobs import Ranks, run_job
from tests.integration.quick_tuning import QUICK

PROGRAMS = Path(__file__).resolve().parent / "programs"
LIMIT_S = 300
ENGINE = {"fusion_bytes", "cycle_ms"}
JOINT = {"AUTOTUNE_MAX_SAMPLES": "12", "RINGTUNE_CHUNK_BYTES": "auto", "RINGTUNE_RESPONSE_CACHE": "1"}
"""A search of one space for engine and model: three samples may leave out all of the model's knobs."""


def tuned(folder: Path, kind: str, marks: int = 0, variables: Mapping[str, str] = {}) -> list[dict[str, Any]]:
    """Return the log of a job that came to a verdict.

    Args:
        folder: Folder of the log.
        kind: Model of the program.
        marks: Number of steps that were marked beside one for each step.
        variables: Variables of the job beside `QUICK`.
    """
    program = Forked(PROGRAMS / "tunes.py", (kind, str(folder / "meeting")))
    return logged(folder, program, f"agreed, {marks} more marks", variables)


def logged(folder: Path, program: Forked, last_words: str, variables: Mapping[str, str] = {}) -> list[dict[str, Any]]:
    """Return the log of a job of two ranks, each of which ended with a line that begins so."""
    log = folder / "tune.jsonl"

    finished = run_job(
        Ranks(2, program), {**QUICK, "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOG": str(log), **variables}, deadline_s=LIMIT_S
    )

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count(last_words), finished.text
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def tried(records: list[dict[str, Any]]) -> set[str]:
    """Return the knobs of which the search tried more than one value."""
    configs = [record["config"] for record in records if record["type"] == "sample" and record["phase"] == "search"]
    first = next(record["config"] for record in records if record["type"] == "sample")
    return {name for config in configs for name, value in config.items() if value != first[name]}


@pytest.mark.parametrize(("kind", "marks"), [("own", 0), ("two", 0), ("marked", 2)])
def test_collectives_of_the_programs_own_are_tuned(tmp_path: Path, kind: str, marks: int) -> None:
    """Steps end where all optimizers have stepped, or where the program says so; the engine's knobs are searched."""
    records = tuned(tmp_path, kind, marks)

    assert ("run", "ringtune") == (records[0]["type"], records[0]["key"]["target"])
    assert "result" in {record["type"] for record in records}
    assert tried(records) & ENGINE


def test_a_program_without_steps_is_tuned_by_rounds_of_its_calls(tmp_path: Path) -> None:
    """Calls that repeat are steps; their signatures are the key's model."""
    records = logged(tmp_path, Forked(PROGRAMS / "generates.py", (str(tmp_path / "meeting"),)), "agreed")

    assert "result" in {record["type"] for record in records}
    assert tried(records) & ENGINE
    assert records[0]["key"]["model"] != model_fingerprint({})


@pytest.mark.parametrize(
    ("kind", "knobs"),
    [
        ("ddp", {"bucket_cap_mb", "first_bucket_bytes"}),
        ("fsdp", {"kept_modules", "forward_prefetch", "backward_prefetch"}),
    ],
)
def test_a_wrapped_model_and_the_engine_are_one_search_space(tmp_path: Path, kind: str, knobs: set[str]) -> None:
    """The search changes the engine's knobs and the model's; all ranks end with one config and one set of weights."""
    records = tuned(tmp_path, kind, variables=JOINT)

    assert "torch" == records[0]["key"]["target"]
    assert {*knobs, *ENGINE} <= {parameter["name"] for parameter in records[0]["search_space"]["parameters"]}
    assert "result" in {record["type"] for record in records}
    assert tried(records) & ENGINE
    assert tried(records) & knobs
