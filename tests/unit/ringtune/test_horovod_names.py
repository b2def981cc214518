# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for the same knobs."""

import pytest

from ringtune.errors import ConfigError
from ringtune.settings import Settings, find_notes


@pytest.mark.parametrize(
    ("variable", "value", "knob", "expected"),
    [
        ("HOROVOD_FUSION_THRESHOLD", "33554432", "fusion_bytes", 2**25),
        ("HOROVOD_FUSION_THRESHOLD", "0", "fusion_bytes", 0),
        ("HOROVOD_CYCLE_TIME", "3.5", "cycle_ms", 3.5),
        ("HOROVOD_CACHE_CAPACITY", "0", "response_cache", False),
        ("HOROVOD_CACHE_CAPACITY", "1024", "response_cache", True),
        ("HOROVOD_HIERARCHICAL_ALLREDUCE", "1", "hierarchical_allreduce", True),
    ],
)
def test_knobs_are_read_in_horovods_units(variable: str, value: str, knob: str, expected: object) -> None:
    """A migrated job keeps its settings: bytes, milliseconds, entries."""
    settings = Settings.from_environment({variable: value})

    assert expected == settings.fixed[knob]
    assert () == find_notes({variable: value})


@pytest.mark.parametrize(
    ("variable", "value", "knob", "expected"),
    [
        ("HOROVOD_FUSION_THRESHOLD", "1024", "fusion_bytes", 65536),
        ("HOROVOD_FUSION_THRESHOLD", "1073741824", "fusion_bytes", 2**28),
        ("HOROVOD_CYCLE_TIME", "100", "cycle_ms", 50.0),
    ],
)
def test_values_outside_our_box_are_clamped_with_one_note(
    variable: str, value: str, knob: str, expected: object
) -> None:
    """What Horovod allowed and we do not starts anyway, with the nearest value and one sentence."""
    settings = Settings.from_environment({variable: value})
    notes = find_notes({variable: value})

    assert expected == settings.fixed[knob]
    assert 1 == len(notes)
    assert f"{variable}={value}" in notes[0]


def test_both_spellings_may_agree() -> None:
    """The same value under both names is in order."""
    settings = Settings.from_environment({"HOROVOD_CYCLE_TIME": "2", "RINGTUNE_CYCLE_MS": "2.0"})

    assert 2.0 == settings.fixed["cycle_ms"]


def test_both_spellings_in_disagreement_are_an_error() -> None:
    """Two values for one knob: neither wins silently."""
    with pytest.raises(ConfigError, match=r"RINGTUNE_CYCLE_MS=2.0 and HOROVOD_CYCLE_TIME"):
        Settings.from_environment({"HOROVOD_CYCLE_TIME": "3", "RINGTUNE_CYCLE_MS": "2"})


@pytest.mark.parametrize("value", ["abc", "64MiB", "-5", "1e6"])
def test_a_malformed_value_is_an_error(value: str) -> None:
    """A threshold that is no number of bytes is not taken for zero, as strtol would."""
    with pytest.raises(ConfigError, match="HOROVOD_FUSION_THRESHOLD"):
        Settings.from_environment({"HOROVOD_FUSION_THRESHOLD": value})


def test_the_tuners_variables_are_translated() -> None:
    """A job that was tuned under Horovod is tuned here."""
    environ = {"HOROVOD_AUTOTUNE": "1", "HOROVOD_AUTOTUNE_LOG": "tune.csv"}

    settings = Settings.from_environment(environ)

    assert settings.autotune
    assert "tune.csv" == settings.autotune_log


def test_a_timeline_that_the_program_starts_is_no_file() -> None:
    """Horovod's DYNAMIC leaves it to start_timeline(); another value is a path."""
    assert Settings.from_environment({"HOROVOD_TIMELINE": "DYNAMIC"}).timeline is None
    assert "trace.json" == Settings.from_environment({"HOROVOD_TIMELINE": "trace.json"}).timeline


def test_marked_cycles_are_announced_as_without_effect() -> None:
    """The note says what to call; switched off there is nothing to say."""
    environ = {"HOROVOD_TIMELINE": "trace.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}

    assert "trace.json" == Settings.from_environment(environ).timeline
    (note,) = find_notes(environ)
    assert "mark_cycles=True" in note
    assert () == find_notes({"HOROVOD_TIMELINE_MARK_CYCLES": "0"})
