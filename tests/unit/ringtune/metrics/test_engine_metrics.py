# SPDX-License-Identifier: Apache-2.0
"""The engine's counters and config, as a scraper reads them."""

import re
from pathlib import Path
from typing import cast

from ringtune.metrics.engine_metrics import COUNTERS, REQUESTS, EngineCollector, JobCollector, ReadableEngine
from ringtune.metrics.families import Families
from tests.unit.ringtune.metrics.doubles import IDENTITY, StandingEngine, labelled, series_of

REPOSITORY = Path(__file__).resolve().parents[4]


def standing_engine() -> ReadableEngine:
    """Return the double, typed as the engine."""
    return cast("ReadableEngine", StandingEngine())


def test_every_counter_of_the_engine_is_shown_once() -> None:
    """Each value is there, under one name."""
    found = series_of(EngineCollector(Families(IDENTITY), standing_engine()))

    counted = [
        value
        for (name, labels), value in found.items()
        if name.startswith("ringtune_engine_")
        if "lap" not in dict(labels)
    ]
    assert sorted(StandingEngine().counters().values()) == sorted(counted)


def test_counters_stand_under_their_own_names() -> None:
    """Some of them: those whose names differ from the engine's, and those that are labels."""
    found = series_of(EngineCollector(Families(IDENTITY), standing_engine()))

    assert 4.0 == found[labelled("ringtune_engine_reduced_bytes_total")]
    assert 6.0 == found[labelled("ringtune_engine_requests_total", kind="cached")]
    assert 5.0 == found[labelled("ringtune_engine_requests_total", kind="full")]
    assert 9.0 == found[labelled("ringtune_engine_steps_total")]
    assert 17.0 == found[labelled("ringtune_engine_allreduces_total", algorithm="direct")]
    assert 18.0 == found[labelled("ringtune_engine_allreduces_total", algorithm="ring")]
    assert 3.5 == found[labelled("ringtune_engine_seconds_total", lap="elsewhere")]


def test_no_counter_of_the_engine_is_forgotten() -> None:
    """Every counter that the engine's source names is shown."""
    source = (REPOSITORY / "native/src/telemetry/counters.h").read_text(encoding="utf-8")
    listed = re.search(r"kCounterNames\{(.*?)\}", source, re.DOTALL)

    assert listed is not None
    assert set(re.findall(r'"(\w+)"', listed[1])) == {*COUNTERS, *REQUESTS}


def test_the_config_in_force_is_numbers_and_words() -> None:
    """Numbers in base units to draw, words to read."""
    found = series_of(EngineCollector(Families(IDENTITY), standing_engine()))

    assert 7.0 == found[labelled("ringtune_config_epoch")]
    assert 0.0 == found[labelled("ringtune_config_fusion_bytes")]
    assert 0.0025 == found[labelled("ringtune_config_cycle_seconds")]
    assert 1.0 == found[labelled("ringtune_config_response_cache")]
    assert 0.0 == found[labelled("ringtune_config_hierarchical_allreduce")]
    (words,) = [dict(labels) for name, labels in found if name == "ringtune_config_info"]
    assert ("0 (off)", "2.5 ms", "auto", "on") == tuple(
        words[knob] for knob in ("fusion_bytes", "cycle_ms", "chunk_bytes", "response_cache")
    )


def test_the_jobs_facts_are_labels_of_one_series() -> None:
    """World size, hosts and the begin are numbers."""
    collector = JobCollector(
        Families(IDENTITY), world_size=4, hosts=2, began_unix_s=1.5e9, facts={"transport": "tcp", "version": "1"}
    )

    found = series_of(collector)

    assert {
        labelled("ringtune_job_info", transport="tcp", version="1"): 1.0,
        labelled("ringtune_job_world_size"): 4.0,
        labelled("ringtune_job_hosts"): 2.0,
        labelled("ringtune_job_start_timestamp_seconds"): 1.5e9,
    } == found
