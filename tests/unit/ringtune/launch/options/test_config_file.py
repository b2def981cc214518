# SPDX-License-Identifier: Apache-2.0
"""`--config-file`: Horovod's YAML."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.options.choices import Choices, read_choices
from ringtune.settings.settings import Settings

FULL = """
controller: gloo
params:
    fusion_threshold_mb: 32
    cycle_time_ms: 10
    cache_capacity: 2048
    hierarchical_allreduce: true
    hierarchical_allgather: false
autotune:
    enabled: true
    log_file: log.csv
    warmup_samples: 5
    steps_per_sample: 20
    bayes_opt_max_samples: 50
    gaussian_process_noise: 0.9
timeline:
    filename: timeline.json
    mark_cycles: true
stall_check:
    enabled: false
    warning_time_seconds: 120
    shutdown_time_seconds: 240
library_options:
    mpi_threads_disable: true
    num_nccl_streams: 2
    ccl_bgt_affinity: 1
    gloo_timeout_seconds: 60
logging:
    level: INFO
    hide_timestamp: true
"""


def chosen(folder: Path, text: str, **given: object) -> Choices:
    """Return the options of a file with a text, and of a command line beside it."""
    file = folder / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return read_choices({"config_file": str(file), **given})


def test_every_key_of_horovods_file_is_taken(tmp_path: Path) -> None:
    """A key with a counterpart reaches the ranks; each other one is a warning."""
    choices = chosen(tmp_path, FULL)

    settings = Settings.from_environment(choices.environment({}))

    assert {
        "fusion_bytes": 2**25,
        "cycle_ms": 10.0,
        "response_cache": True,
        "hierarchical_allreduce": True,
        "hierarchical_allgather": False,
    } == settings.fixed
    assert (True, "log.csv", 100, 20) == (
        settings.autotune,
        settings.autotune_log,
        settings.warmup_steps,
        settings.steps_per_sample,
    )
    assert (50, "timeline.json", True) == (
        settings.limits.max_samples,
        settings.timeline,
        settings.timeline_marks_cycles,
    )
    assert (86_400.0, 240.0, "info") == (settings.stall_warn_s, settings.timeout_s, settings.log_level)
    keys = ("gaussian_process_noise", "mpi_threads_disable", "num_nccl_streams", "thread_affinity", "gloo_timeout")
    assert [True] * len(keys) == [key in warning for key, warning in zip(keys, choices.warnings(), strict=True)]


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    """The command line wins wherever it names the file."""
    choices = chosen(tmp_path, FULL, cycle_time_ms="3", autotune=False)

    settings = Settings.from_environment(choices.environment({}))

    assert (3.0, False) == (settings.fixed["cycle_ms"], settings.autotune)


@pytest.mark.parametrize("text", ["", "# nothing\n", "params:\n", "params: {}\n", "params:\n  cycle_time_ms:\n"])
def test_a_file_may_set_nothing(tmp_path: Path, text: str) -> None:
    """Empty sections and empty values are those of the command line."""
    assert {} == chosen(tmp_path, text).environment({})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("params:\n  cycle_time: 2", "params.cycle_time is not known; did you mean params.cycle_time_ms?"),
        ("parameters:\n  cycle_time_ms: 2", "parameters is not known; did you mean params?"),
        ("params: 3", "params is 3; give it keys with values"),
        ("- 1", "holds no sections"),
        ("params:\n  cycle_time_ms: fast", "params.cycle_time_ms fast is not possible; allowed: a number"),
        ("params:\n  cycle_time_ms: [1]", "params.cycle_time_ms a list is not possible"),
        ("params:\n  cycle_time_ms: true", "params.cycle_time_ms True is not possible"),
        ("autotune:\n  enabled: maybe", "autotune.enabled 'maybe' is not possible; allowed: true, false"),
        ("controller: smoke", "controller 'smoke' is not known; known are gloo, mpi"),
        ("params: {cycle_time_ms: 1", "is no YAML"),
        ("a: !!python/object/apply:os.system ['true']", "is no YAML"),
        ("[" * 40_000, "line 1: lists and mappings are over 16 levels deep"),
        ("x" * (1 << 21), "has more than"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, text: str, word: str) -> None:
    """Horovod ignores a key that it does not know; here the nearest one is named."""
    with pytest.raises(ConfigError, match=r"config\.yaml") as error:
        chosen(tmp_path, text)

    assert word in str(error.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """The error has the system's reason."""
    with pytest.raises(ConfigError, match="cannot be read .*No such file"):
        read_choices({"config_file": str(tmp_path / "missing.yaml")})
