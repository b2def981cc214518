# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for the same knobs."""

import pytest

from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings, find_notes


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
    """A value of Horovod's that ringtune forbids is replaced by the nearest legal one, with one sentence."""
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


@pytest.mark.parametrize(("value", "is_marked"), [("1", True), ("0", False)])
def test_cycles_are_marked_where_horovod_would(value: str, is_marked: bool) -> None:
    """The trace shows the engine's cycles, so that no note is needed."""
    environ = {"HOROVOD_TIMELINE": "trace.json", "HOROVOD_TIMELINE_MARK_CYCLES": value}

    settings = Settings.from_environment(environ)

    assert ("trace.json", is_marked) == (settings.timeline, settings.timeline_marks_cycles)
    assert () == find_notes(environ)


@pytest.mark.parametrize(
    ("environ", "steps"),
    [
        ({"HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "3"}, 30),
        ({"HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "3", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "20"}, 60),
        ({"HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0"}, 0),
    ],
)
def test_a_warm_up_in_samples_is_one_in_steps(environ: dict[str, str], steps: int) -> None:
    """Horovod counts it in samples of so many steps, 10 by default."""
    assert steps == Settings.from_environment(environ).warmup_steps


@pytest.mark.parametrize(
    ("level", "expected", "notes"),
    [("TRACE", "debug", 0), ("info", "info", 0), ("FATAL", "error", 0), ("loud", "warning", 1)],
)
def test_log_levels_are_translated(level: str, expected: str, notes: int) -> None:
    """Horovod has two more, and treats an unknown level as a warning."""
    environ = {"HOROVOD_LOG_LEVEL": level}

    assert expected == Settings.from_environment(environ).log_level
    assert notes == len(find_notes(environ))


def test_a_stall_check_that_is_turned_off_stays_off() -> None:
    """A stall check that is off stays off as in Horovod, whatever time is set besides."""
    environ = {"HOROVOD_STALL_CHECK_DISABLE": "1", "HOROVOD_STALL_CHECK_TIME_SECONDS": "30"}

    assert 86_400.0 == Settings.from_environment(environ).stall_warn_s


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HOROVOD_FUSION_TRESHOLD", "HOROVOD_FUSION_THRESHOLD"),
        ("HOROVOD_CYCLE_TIME_MS", "HOROVOD_CYCLE_TIME"),
        ("HOROVOD_AUTO_TUNE", "HOROVOD_AUTOTUNE"),
        ("HOROVOD_HIERARCHICAL_ALREDUCE", "HOROVOD_HIERARCHICAL_ALLREDUCE"),
    ],
)
def test_a_slip_in_a_name_is_noted_with_the_nearest_one(name: str, meant: str) -> None:
    """Horovod ignores it in silence."""
    (note,) = find_notes({name: "1"})

    assert f"{name} is not a variable of Horovod's; did you mean {meant}?" == note


@pytest.mark.parametrize(
    "name",
    [
        *("HOROVOD_GPU_ALLREDUCE", "HOROVOD_GPU_ALLGATHER", "HOROVOD_WITH_PYTORCH", "HOROVOD_NUM_NCCL_STREAMS"),
        *("HOROVOD_THREAD_AFFINITY", "HOROVOD_ELASTIC_TIMEOUT", "HOROVOD_START_TIMEOUT", "HOROVOD_LOG_HIDE_TIME"),
        *("HOROVOD_CPU_OPERATIONS", "HOROVOD_GPU_OPERATIONS", "HOROVOD_CONTROLLER", "HOROVOD_CUDA_HOME"),
        *("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_SECRET_KEY", "HOROVOD_CACHE"),
        *("HOROVOD_MPI_THREADS_DISABLE", "HOROVOD_BATCH_D2D_MEMCOPIES", "HOROVOD_GLOO_TIMEOUT_SECONDS"),
    ],
)
def test_other_names_of_horovods_are_none_of_our_business(name: str) -> None:
    """Horovod has many more variables than those that act here."""
    assert () == find_notes({name: "1"})
