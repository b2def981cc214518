# SPDX-License-Identifier: Apache-2.0
"""`ringtune run` takes every option of `horovodrun` 0.28: the list, and that none of its rows is idle."""

import pytest
from typer.main import get_command

from ringtune.cli import app
from ringtune.launch.options.choices import read_choices
from ringtune.launch.options.config_file import CONTROLLER_KEY
from ringtune.launch.options.option import AlwaysSo, HasNoEffect, IsRefused, LaunchOption, SetsVariable
from ringtune.launch.options.tables import GROUPS, OPTIONS

# All spellings that `horovodrun --help` of Horovod 0.28 lists, and those that it takes without listing them.
HOROVODRUN = (
    *("-v", "--version", "-np", "--num-proc", "-cb", "--check-build", "--disable-cache", "--start-timeout"),
    *("--network-interfaces", "--network-interface", "--output-filename", "--verbose", "--config-file"),
    *("-p", "--ssh-port", "-i", "--ssh-identity-file"),
    *("--fusion-threshold-mb", "--cycle-time-ms", "--cache-capacity"),
    *("--hierarchical-allreduce", "--no-hierarchical-allreduce"),
    *("--hierarchical-allgather", "--no-hierarchical-allgather"),
    *("--autotune", "--no-autotune", "--autotune-log-file", "--autotune-warmup-samples"),
    *("--autotune-steps-per-sample", "--autotune-bayes-opt-max-samples", "--autotune-gaussian-process-noise"),
    *("--min-np", "--min-num-proc", "--max-np", "--max-num-proc", "--slots-per-host", "--elastic-timeout"),
    *("--reset-limit", "--blacklist-cooldown-range", "--host-discovery-script"),
    *("--timeline-filename", "--timeline-mark-cycles", "--no-timeline-mark-cycles"),
    *("--stall-check", "--no-stall-check", "--stall-check-warning-time-seconds"),
    "--stall-check-shutdown-time-seconds",
    *("--mpi-threads-disable", "--no-mpi-threads-disable", "--mpi-args", "--tcp", "--binding-args"),
    *("--num-nccl-streams", "--thread-affinity", "--gloo-timeout-seconds"),
    *("--log-level", "--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp"),
    *("--no-log-hide-timestamp", "-prefix-timestamp", "--prefix-output-with-timestamp"),
    *("-H", "--hosts", "-hostfile", "--hostfile", "--gloo", "--mpi", "--jsrun"),
)
# What the launcher takes of its own, under the names that it had before.
RINGTUNE = (
    *("--num-ranks", "--env", "--slots", "--ssh-identity", "--rsh", "--prefix-output", "--no-prefix-output"),
    *("--timeline", "--hosts-from", "--torch-backend"),
)


def spellings(option: LaunchOption) -> tuple[str, ...]:
    """Return every spelling of an option."""
    return (*option.names, *option.opposites)


def test_every_option_of_horovodrun_is_there_and_no_other() -> None:
    """The tables hold the options of Horovod's launcher, and ringtune's own."""
    ours = [name for option in OPTIONS.values() for name in spellings(option)]

    assert sorted({*HOROVODRUN, *RINGTUNE}) == sorted(ours)


def test_the_command_line_takes_every_spelling() -> None:
    """Every spelling in the tables is one that the command parses."""
    run = get_command(app).commands["run"]  # type: ignore[attr-defined]

    parsed = {name for parameter in run.params for name in (*parameter.opts, *parameter.secondary_opts)}

    assert {*HOROVODRUN, *RINGTUNE} <= parsed


def test_every_option_has_help_and_a_heading() -> None:
    """`ringtune run --help` explains each."""
    options = [option for group in GROUPS for option in group.options]

    assert all(option.help.endswith(".") for option in options)
    assert all((option.metavar != "") == (option.reader is not None) for option in options)
    assert len(options) == len(OPTIONS)


@pytest.mark.parametrize("option", [o for o in OPTIONS.values() if isinstance(o.effect, IsRefused)])
def test_an_option_that_a_job_cannot_have_is_an_error_that_says_what_to_use(option: LaunchOption) -> None:
    """No job starts without an option that its command line has."""
    raw = True if option.reader is None else ("3", "5") if option.words == 2 else "4"

    with pytest.raises(ValueError, match=rf"^{option.names[0]}: .{{40,}}$") as error:
        read_choices({option.field: raw})

    assert "{value}" not in str(error.value)


@pytest.mark.parametrize("option", [o for o in OPTIONS.values() if isinstance(o.effect, HasNoEffect)])
def test_an_option_without_effect_is_a_warning_that_says_why(option: LaunchOption) -> None:
    """The job goes on; a switch that is turned off needs no warning."""
    (warning,) = read_choices({option.field: True if option.reader is None else "1"}).warnings()

    assert warning.startswith(f"{option.names[0]} has no effect: ")
    assert option.reader is not None or [] == read_choices({option.field: False}).warnings()


@pytest.mark.parametrize("option", [o for o in OPTIONS.values() if isinstance(o.effect, AlwaysSo)])
def test_what_happens_in_any_case_needs_no_word(option: LaunchOption) -> None:
    """The option is accepted, and has neither a setting nor a warning."""
    choices = read_choices({option.field: True})

    assert [] == choices.warnings()
    assert {"A": "1"} == choices.environment({"A": "1"})


def test_every_option_with_a_variable_sets_it() -> None:
    """One variable each, of a text that the ranks understand."""
    options = [option for option in OPTIONS.values() if isinstance(option.effect, SetsVariable)]

    changed = {
        option.field: set(
            read_choices({option.field: "warning" if option.field == "log_level" else "1"}).environment({})
        )
        for option in options
        if option.reader is not None
    }
    switched = {o.field: set(read_choices({o.field: True}).environment({})) for o in options if o.reader is None}

    expected = {o.field: {o.effect.name} for o in options if isinstance(o.effect, SetsVariable)}
    assert expected == {**changed, **switched}


def test_the_keys_of_the_configuration_file_are_unique() -> None:
    """Each key sets one option; the controller alone is a choice among several."""
    keys = [option.key for option in OPTIONS.values() if option.key and option.key != CONTROLLER_KEY]

    assert len(keys) == len(set(keys))
