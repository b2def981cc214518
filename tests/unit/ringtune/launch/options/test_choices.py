# SPDX-License-Identifier: Apache-2.0
"""Options' effects on the ranks' environment, and the variables that `--env` sends."""

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.options.choices import read_choices, sent_variables
from ringtune.settings.settings import Settings


@pytest.mark.parametrize(
    ("given", "knob", "expected"),
    [
        ({"fusion_threshold_mb": "32"}, "fusion_bytes", 2**25),
        ({"fusion_threshold_mb": "0"}, "fusion_bytes", 0),
        ({"cycle_time_ms": "3.5"}, "cycle_ms", 3.5),
        ({"cache_capacity": "0"}, "response_cache", False),
        ({"cache_capacity": "2048"}, "response_cache", True),
        ({"hierarchical_allreduce": True}, "hierarchical_allreduce", True),
        ({"hierarchical_allgather": False}, "hierarchical_allgather", False),
    ],
)
def test_a_knob_that_is_given_is_fixed(given: dict[str, object], knob: str, expected: object) -> None:
    """In Horovod's units, as its variables are."""
    settings = Settings.from_environment(read_choices(given).environment({}))

    assert {knob: expected} == settings.fixed


def test_diagnosis_reaches_the_engine() -> None:
    """Timeline, stall watch, log level and transport."""
    given = {
        "timeline_filename": "trace.json",
        "timeline_mark_cycles": True,
        "stall_check_warning_time_seconds": "30",
        "stall_check_shutdown_time_seconds": "90",
        "log_level": "TRACE",
        "tcp": True,
    }

    settings = Settings.from_environment(read_choices(given).environment({}))

    assert ("trace.json", True) == (settings.timeline, settings.timeline_marks_cycles)
    assert (30.0, 90.0) == (settings.stall_warn_s, settings.timeout_s)
    assert ("debug", "tcp") == (settings.log_level, settings.transport)


@pytest.mark.parametrize(
    ("given", "environ"),
    [
        ({"cycle_time_ms": "3"}, {"RINGTUNE_CYCLE_MS": "2"}),
        ({"cycle_time_ms": "3"}, {"HOROVOD_CYCLE_TIME": "2"}),
        ({"cycle_time_ms": "3"}, {"HOROVOD_CYCLE_TIME": "2", "RINGTUNE_CYCLE_MS": "2"}),
    ],
)
def test_the_command_line_wins_over_the_environment(given: dict[str, object], environ: dict[str, str]) -> None:
    """The command line wins over any spelling in the environment, where two that differ would be an error."""
    settings = Settings.from_environment(read_choices(given).environment(environ))

    assert 3.0 == settings.fixed["cycle_ms"]


def test_one_setting_may_have_two_options() -> None:
    """Each has a variable of its own; neither takes the other's away."""
    given = {"stall_check": False, "stall_check_warning_time_seconds": "30"}

    settings = Settings.from_environment(read_choices(given).environment({"RINGTUNE_STALL_WARN_S": "5"}))

    assert 86_400.0 == settings.stall_warn_s


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"fusion_threshold_mb": "32MiB"}, "--fusion-threshold-mb 32MiB is not possible; allowed: an integer from 0"),
        ({"cycle_time_ms": "-1"}, "--cycle-time-ms -1 is not possible; allowed: a number from 0"),
        ({"log_level": "loud"}, "--log-level loud is not possible; allowed: trace, debug"),
        ({"num_proc": "two"}, "-np two is not possible; allowed: an integer from 1"),
        ({"blacklist_cooldown_range": ("1", "x")}, "--blacklist-cooldown-range 1 x is not possible; allowed: seconds"),
        ({"min_np": "0"}, "--min-np 0 is not possible; allowed: an integer from 1"),
        ({"autotune_gaussian_process_noise": "1.5"}, "1.5 is not possible; allowed: a number from 0 to 1"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(given: dict[str, object], text: str) -> None:
    """One sentence has the option, the value and the allowed values."""
    with pytest.raises(ConfigError) as error:
        read_choices(given)

    assert text in str(error.value)


def test_variables_are_sent_with_a_value_or_with_the_launchers() -> None:
    """The value may hold anything, also an equals sign, and may be empty."""
    sent = sent_variables(["A=1", "B", "C=x=y\n", "D="], {"B": "2", "E": "3"})

    assert {"A": "1", "B": "2", "C": "x=y\n", "D": ""} == sent


@pytest.mark.parametrize(
    ("assignment", "word"),
    [
        ("MISSING", "--env MISSING: this process has no such variable"),
        ("=1", "names no variable"),
        ("a b=1", "names no variable"),
        ("RINGTUNE_RANK=1", "the launcher sets it itself"),
        ("HOROVOD_SIZE=1", "the launcher sets it itself"),
        ("RINGTUNE_JOB_KEY", "keeps it from the ranks"),
        ("RINGTUNE_SERVICE_ADMIN_TOKEN=x", "keeps it from the ranks"),
    ],
)
def test_what_cannot_be_sent_is_an_error(assignment: str, word: str) -> None:
    """A place in the job is not the user's to give, and a secret of the launcher's stays with it."""
    with pytest.raises(ConfigError) as error:
        sent_variables([assignment], {"RINGTUNE_JOB_KEY": "ab"})

    assert word in str(error.value)
