# SPDX-License-Identifier: Apache-2.0
"""Promises of every engine, and the variables and files that configs become."""

from pathlib import Path

import numpy as np
import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import Config, Value
from ringtune.tuning.command.engines import DEFAULT, Engine, WinnerFile, engine_names, find_engine, plugin_path
from ringtune.tuning.command.engines.nccl_table import Rule, decode_table

FOLDER = Path("/somewhere")
NAMES = engine_names()
PREFIXES = ("", "reducescatter_", "allgather_")


def config_of(engine: Engine, **values: float | str) -> Config:
    """Return the baseline with some values changed, checked against the space."""
    return engine.space({}).validate(engine.baseline().replace(values))


def text_of(files: tuple[WinnerFile, ...], name: str) -> str:
    """Return the text of the file of a name."""
    return next(file.content.decode() for file in files if file.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_sets_nothing(name: str) -> None:
    """The baseline is the command without us: no variable, no file."""
    engine = find_engine(name)

    baseline = engine.baseline()

    assert {} == engine.variables(baseline, FOLDER)
    assert () == engine.trial_files(baseline, FOLDER, "x")
    assert engine.space({}).contains(baseline)


@pytest.mark.parametrize("name", NAMES)
def test_any_config_can_be_tried_and_written(name: str) -> None:
    """Values are one-line words, files are text or a readable table, and every file that a trial names is written."""
    engine = find_engine(name)
    rng = np.random.default_rng(5)

    for _ in range(200):
        config = engine.space({}).random(rng)
        variables = engine.variables(config, FOLDER)
        files = engine.winner_files(config, FOLDER, "a comment\nof two lines")
        trial_names = {str(FOLDER / file.name) for file in engine.trial_files(config, FOLDER, "c")}

        assert all(value and value == value.strip() and "\n" not in value for value in variables.values())
        assert trial_names <= set(variables.values())
        assert files[0].usage.count("{path}") == 1
        assert files[0].content.decode().startswith("# a comment\n# of two lines\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_knob_that_the_user_has_set_is_left_alone(name: str) -> None:
    """The variable of each knob, in the environment, pins that knob at its default."""
    engine = find_engine(name)
    for knob in engine.knobs:
        for variable in knob.variables:
            space = engine.space({variable: "1"})

            assert DEFAULT == space.fixed[knob.name]
            assert knob.name not in {parameter.name for parameter in space.free}


def test_only_the_named_knobs_vary() -> None:
    """The others are pinned at their defaults; an unknown name lists those there are."""
    engine = find_engine("horovod")

    space = engine.space({}, ("cycle_ms",))

    assert ["cycle_ms"] == [parameter.name for parameter in space.free]
    with pytest.raises(ConfigError, match="cycle_secs: horovod has no such knob; it has fusion_bytes, cycle_ms"):
        engine.space({}, ("cycle_secs",))


@pytest.mark.parametrize(
    ("name", "knob", "others"),
    [
        ("mpich", "tree_chunk_bytes", ["algorithm"]),
        ("nccl", "sockets_per_thread", ["socket_threads"]),
        ("openmpi", "segment_bytes", ["large_algorithm"]),
        ("openmpi", "large_from_bytes", ["small_algorithm", "large_algorithm"]),
    ],
)
def test_a_knob_that_would_have_no_effect_alone_is_refused(name: str, knob: str, others: list[str]) -> None:
    """The refusal names the knobs that have to vary beside it, and the variable that keeps one of them."""
    engine = find_engine(name)

    with pytest.raises(ConfigError, match=f"--only {knob}: .* add {' or '.join(others)} to --only"):
        engine.space({}, (knob,))

    assert all(engine.space({}, (knob, other)) for other in others)
    every_variable = {variable: "1" for other in others for variable in engine.owned.get(other, ())}
    if every_variable and knob not in engine.set_by_user(every_variable):
        with pytest.raises(ConfigError, match=f"unset it for ringtune to vary {others[0]}, which "):
            engine.space(every_variable, (knob, *others))


@pytest.mark.parametrize("name", NAMES)
def test_any_other_knob_acts_alone(name: str) -> None:
    """A knob that is taken alone has configs that differ from the baseline in effect, too."""
    engine = find_engine(name)
    rng = np.random.default_rng(5)

    for knob in {knob.name for knob in engine.knobs} - engine.needs.keys():
        space = engine.space({}, (knob,))
        assert any(engine.effective(space.random(rng)) != engine.baseline() for _ in range(100)), knob


def test_open_mpi_gets_a_rule_per_range_of_sizes() -> None:
    """A trial's rules file and the winner's hold the same rules; the parameters name the winner's own."""
    engine = find_engine("openmpi")
    config = config_of(engine, small_algorithm="recursive_doubling", large_algorithm="ring", large_from_bytes=131072)

    variables = engine.variables(config, FOLDER)
    trial = text_of(engine.trial_files(config, FOLDER, "c"), "trial-rules.conf")
    files = engine.winner_files(config, FOLDER, "c")

    assert "true" == variables["OMPI_MCA_coll_tuned_use_dynamic_rules"]
    assert "/somewhere/trial-rules.conf" == variables["OMPI_MCA_coll_tuned_dynamic_rules_filename"]
    assert trial.endswith("2  # message sizes\n0 3 0 0\n131072 4 0 0\n")
    assert trial == text_of(files, "allreduce-rules.conf")
    assert "coll_tuned_dynamic_rules_filename = /somewhere/allreduce-rules.conf\n" in text_of(files, "mca-params.conf")


@pytest.mark.parametrize(
    ("name", "values", "idle"),
    [
        ("openmpi", {"large_from_bytes": 4096, "segment_bytes": 8192}, {"large_from_bytes", "segment_bytes"}),
        ("openmpi", {"large_algorithm": "ring", "segment_bytes": 8192, "large_from_bytes": 4096}, {"segment_bytes"}),
        ("openmpi", {"large_algorithm": "segmented_ring", "segment_bytes": 8192, "hierarchy": "off"}, {"hierarchy"}),
        (
            "openmpi",
            {"small_algorithm": "ring", "large_algorithm": "ring", "large_from_bytes": 4096},
            {"large_from_bytes"},
        ),
        ("mpich", {"algorithm": "ring", "tree_chunk_bytes": 8192}, {"tree_chunk_bytes"}),
        ("mpich", {"algorithm": "tree", "tree_chunk_bytes": 8192}, set()),
        ("nccl", {"sockets_per_thread": 4}, {"sockets_per_thread"}),
        ("nccl", {"sockets_per_thread": 4, "socket_threads": 2}, set()),
        ("nccl", {"socket_threads": 2}, set()),
        ("nccl", {"algorithm": "nvls_tree", "protocol": "ll"}, {"protocol"}),
        ("nccl", {"allgather_algorithm": "pat", "allgather_protocol": "simple"}, {"allgather_protocol"}),
        ("nccl", {"reducescatter_algorithm": "nvls", "reducescatter_protocol": "ll128"}, {"reducescatter_protocol"}),
        ("nccl", {"algorithm": "tree", "protocol": "ll128", "allgather_protocol": "ll"}, set()),
    ],
)
def test_values_without_effect_are_the_default(name: str, values: dict[str, Value], idle: set[str]) -> None:
    """Two configs that the engine takes for one are measured as one."""
    engine = find_engine(name)
    config = config_of(engine, **values)

    effective = engine.effective(config)

    assert idle == {knob for knob, value in effective.items() if value != config[knob]}
    assert all(effective[knob] == DEFAULT for knob in idle)


def test_open_mpi_gets_no_rules_where_none_was_chosen() -> None:
    """Limits of shared memory are parameters alone; dynamic rules stay off."""
    engine = find_engine("openmpi")
    config = config_of(engine, eager_limit_bytes=8192, yield_when_idle="on")

    files = engine.winner_files(config, FOLDER, "c")

    assert ["mca-params.conf"] == [file.name for file in files]
    assert b"# c\nbtl_sm_eager_limit = 8192\nmpi_yield_when_idle = true\n" == files[0].content


def test_a_users_own_rules_pin_all_that_would_need_others() -> None:
    """Only one rules file can hold."""
    space = find_engine("openmpi").space({"OMPI_MCA_coll_tuned_dynamic_rules_filename": "/mine"})

    assert {"eager_limit_bytes", "hierarchy", "yield_when_idle"} == {p.name for p in space.free}


def test_mpich_reaches_general_algorithms_past_the_device() -> None:
    """The device's own choice comes first and is turned off for them."""
    engine = find_engine("mpich")

    general = engine.variables(config_of(engine, algorithm="ring"), FOLDER)

    assert {
        "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring",
        "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "0",
    } == general


def test_nccl_gets_algorithms_and_protocols_through_the_plugin() -> None:
    """A trial's table and the winner's hold the same rules; the conf file loads the plugin and sets the rest."""
    engine = find_engine("nccl")
    config = config_of(engine, algorithm="tree", protocol="ll128", allgather_algorithm="pat", channels=64)

    variables = engine.variables(config, FOLDER)
    (trial,) = engine.trial_files(config, FOLDER, "c")
    conf, table = engine.winner_files(config, FOLDER, "c")

    assert {
        "NCCL_TUNER_PLUGIN": str(plugin_path()),
        "RINGTUNE_NCCL_TABLE": "/somewhere/trial-tuner.table",
        "NCCL_MIN_CTAS": "64",
        "NCCL_MAX_CTAS": "64",
    } == variables
    assert (Rule("allreduce", "tree", "ll128"), Rule("allgather", "pat")) == decode_table(table.content)
    assert trial.content == table.content
    lines = conf.content.decode().splitlines()
    assert {"NCCL_MAX_CTAS=64", f"NCCL_TUNER_PLUGIN={plugin_path()}"} <= set(lines)
    assert f"RINGTUNE_NCCL_TABLE={FOLDER / table.name}" in lines


def test_nccl_never_hears_a_protocol_or_a_deprecated_name_from_the_environment() -> None:
    """`NCCL_PROTO` with LL128 switches off the conditions under which it keeps data whole."""
    engine = find_engine("nccl")
    rng = np.random.default_rng(7)

    for _ in range(200):
        config = engine.space({}).random(rng)
        written = b"".join(file.content for file in engine.winner_files(config, FOLDER, "c"))
        forbidden = ("NCCL_PROTO", "NCCL_ALGO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")

        assert not [name for name in forbidden if name in engine.variables(config, FOLDER) or name.encode() in written]


@pytest.mark.parametrize(
    ("variable", "knobs"),
    [
        ("NCCL_PROTO", {"protocol", "reducescatter_protocol", "allgather_protocol"}),
        ("NCCL_ALGO", {"algorithm", "reducescatter_algorithm", "allgather_algorithm"}),
        ("NCCL_MAX_NCHANNELS", {"channels"}),
        ("NCCL_SOCKET_NTHREADS", {"socket_threads", "sockets_per_thread"}),
        ("NCCL_NSOCKS_PERTHREAD", {"sockets_per_thread"}),
        (
            "NCCL_TUNER_PLUGIN",
            {
                f"{prefix}{kind}"
                for prefix in ("", "reducescatter_", "allgather_")
                for kind in ("algorithm", "protocol")
            },
        ),
    ],
)
def test_what_the_user_says_to_nccl_pins_what_it_decides(variable: str, knobs: set[str]) -> None:
    """A variable that we never set pins its knob, too."""
    assert knobs == set(find_engine("nccl").space({variable: "1"}).fixed)


def test_nccl_gets_no_plugin_for_what_a_plugin_cannot_do() -> None:
    """A loaded tuner switches parts of NCCL off, so a trial of buffers runs without."""
    engine = find_engine("nccl")
    config = config_of(engine, buffer_bytes=2**20)

    files = engine.winner_files(config, FOLDER, "c")

    assert ["nccl.conf"] == [file.name for file in files]
    assert {"NCCL_BUFFSIZE": "1048576"} == engine.variables(config, FOLDER)
    assert () == engine.trial_files(config, FOLDER, "c")


def test_horovods_own_tuner_is_off_while_a_value_is_tried() -> None:
    """Horovod's own tuner would change the measured config."""
    engine = find_engine("horovod")

    variables = engine.variables(config_of(engine, cycle_ms=2.5, hierarchical_allreduce="on"), FOLDER)

    assert {
        "HOROVOD_CYCLE_TIME": "2.5",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
        "HOROVOD_AUTOTUNE": "0",
    } == variables


def test_horovods_hierarchy_has_no_value_that_is_its_default() -> None:
    """Horovod leaves both hierarchies off by itself: a trial of "off" would measure the defaults again."""
    engine = find_engine("horovod")

    words = {word for knob in engine.knobs if knob.name.startswith("hierarchical") for word in knob.words.values()}

    assert {"1"} == words
