# SPDX-License-Identifier: Apache-2.0
"""Settings out of the environment."""

import re

import pytest

from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings, find_notes, find_slips
from ringtune.world.world import public_offer
from tests.house.source_tree import REPOSITORY


def test_an_empty_environment_gives_the_contracts_defaults() -> None:
    """A job without settings runs without tuning on the built-in defaults."""
    settings = Settings.from_environment({})

    assert not settings.autotune
    assert (None, None, 120.0, 200) == settings.limits
    assert (60.0, 600.0) == (settings.stall_warn_s, settings.timeout_s)
    assert 64 * 2**20 == settings.baseline["fusion_bytes"]
    assert {} == settings.fixed


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("AUTOTUNE", "maybe", "auto, 0 or 1"),
        ("AUTOTUNE_MAX_SAMPLES", "0", "1 to 10000"),
        ("AUTOTUNE_MAX_STEPS", "0", "1 to 1000000000"),
        ("AUTOTUNE_MAX_STEPS", "1e3", "1 to 1000000000"),
        ("AUTOTUNE_MAX_SECONDS", "0.5", "seconds from 1 to 604800"),
        ("AUTOTUNE_MAX_SECONDS", "inf", "seconds from 1 to 604800"),
        ("AUTOTUNE_MAX_SECONDS", "2m", "seconds from 1 to 604800"),
        ("AUTOTUNE_SEED", "-1", "from 0"),
        ("AUTOTUNE_BASELINE", "fusion_bytes", "knob=value"),
        ("AUTOTUNE_BASELINE", "speed=9", "fusion_bytes="),
        ("AUTOTUNE_LOG", "", "not empty"),
        ("RINGTUNE_FUSION_BYTES", "1KiB", "65536 to 268435456"),
        ("RINGTUNE_FUSION_BYTES", "lots", "65536 to 268435456"),
        ("RINGTUNE_CYCLE_MS", "nan", "0.05 to 50"),
        ("RINGTUNE_CYCLE_MS", "1000", "0.05 to 50"),
        ("RINGTUNE_CHUNK_BYTES", "1", "auto or 16384"),
        ("RINGTUNE_RESPONSE_CACHE", "2", "true or false"),
        ("RINGTUNE_ALLREDUCE_ALGORITHM", "magic", "auto, direct"),
        ("RINGTUNE_TIMEOUT_S", "0", "from 0.1"),
        ("RINGTUNE_LOG_LEVEL", "loud", "debug, info"),
        ("RINGTUNE_TRANSPORT", "pigeon", "auto, shm"),
        ("RINGTUNE_METRICS_PORT", "70000", "65535"),
    ],
)
def test_a_bad_value_is_refused_with_name_value_and_range(variable: str, value: str, allowed: str) -> None:
    """A malformed or out-of-range variable is an error that says all there is to know."""
    with pytest.raises(ConfigError) as caught:
        Settings.from_environment({variable: value}, ["direct"])

    text = str(caught.value)
    assert variable in text
    assert repr(value) in text
    assert allowed in text


def test_a_backend_that_torch_will_not_load_is_refused() -> None:
    """The program would run on Gloo without a word."""
    with pytest.raises(ConfigError, match="TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps it from"):
        Settings.from_environment({"RINGTUNE_TORCH_BACKEND": "gloo", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})


def test_a_limit_that_is_set_takes_the_default_away() -> None:
    """A limit that the user did not set never cuts the budget; the limits in force are shown."""
    samples, steps, seconds, all_three = (
        Settings.from_environment(environ)
        for environ in (
            {"AUTOTUNE_MAX_SAMPLES": "8"},
            {"AUTOTUNE_MAX_STEPS": "300"},
            {"AUTOTUNE_MAX_SECONDS": "90"},
            {"AUTOTUNE_MAX_STEPS": "300", "AUTOTUNE_MAX_SECONDS": "1.5", "AUTOTUNE_MAX_SAMPLES": "8"},
        )
    )

    assert (8, None, None, 0) == samples.limits
    assert (None, 300, None, 0) == steps.limits
    assert (None, None, 90.0, 0) == seconds.limits
    assert (8, 300, 1.5, 0) == all_three.limits
    shown = [one.effective()["AUTOTUNE_MAX_SECONDS"] for one in (samples, steps, seconds, all_three)]
    assert [None, None, 90.0, 1.5] == shown


def test_a_knob_that_is_set_is_fixed_and_in_the_baseline() -> None:
    """A knob's own variable takes it out of the tuner's hands."""
    settings = Settings.from_environment({"RINGTUNE_FUSION_BYTES": "32MiB", "RINGTUNE_CHUNK_BYTES": "auto"})

    assert {"fusion_bytes": 2**25, "chunk_bytes": "auto"} == settings.fixed
    assert 2**25 == settings.baseline["fusion_bytes"]


def test_a_baseline_does_not_fix_its_knobs() -> None:
    """AUTOTUNE_BASELINE says where the job starts, and leaves the tuner free."""
    settings = Settings.from_environment({"AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=20"})

    assert {} == settings.fixed
    assert (0, 20.0) == (settings.baseline["fusion_bytes"], settings.baseline["cycle_ms"])


def test_a_baseline_may_not_contradict_a_fixed_knob() -> None:
    """A knob that is fixed to one value and starts at another is an error naming both."""
    environ = {"AUTOTUNE_BASELINE": "cycle_ms=20", "RINGTUNE_CYCLE_MS": "5"}

    with pytest.raises(ConfigError, match=r"cycle_ms=20.0 but RINGTUNE_CYCLE_MS=5.0"):
        Settings.from_environment(environ)


def test_the_same_settings_follow_from_what_was_given() -> None:
    """The given values alone rebuild the settings, as other ranks do with rank 0's."""
    settings = Settings.from_environment({"AUTOTUNE": "true", "RINGTUNE_CYCLE_MS": "2.5", "AUTOTUNE_SEED": "7"})

    assert settings == Settings.from_given(settings.given)


def test_effective_values_hold_defaults_and_what_was_given() -> None:
    """The effective values answer for every variable, set or not."""
    effective = Settings.from_environment({"RINGTUNE_CYCLE_MS": "2"}).effective()

    assert 2.0 == effective["RINGTUNE_CYCLE_MS"]
    assert 64 * 2**20 == effective["RINGTUNE_FUSION_BYTES"]
    assert effective["AUTOTUNE"] is False


@pytest.mark.parametrize("value", ["0", "1"])
def test_no_value_passes_for_a_default_that_the_layout_decides(value: str) -> None:
    """A rank that sets it while rank 0 does not is refused, instead of being overruled in silence."""
    name = "RINGTUNE_HIERARCHICAL_ALLREDUCE"
    others = Settings.from_environment({name: value}).given

    assert others[name] != Settings.from_environment({}).effective()[name]
    assert others[name] == Settings.from_environment({name: value}).effective()[name]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AUTOTUNE_CACHE", "seen.jsonl"),
        ("RINGTUNE_METRICS_PORT", "9000"),
        ("AUTOTUNE_SERVICE_URL", "http://tuner:8470"),
        ("AUTOTUNE_SERVICE_TOKEN", "hunter2"),
        ("RINGTUNE_TRANSPORT", "mpi"),
    ],
)
def test_what_acts_is_not_noted(variable: str, value: str) -> None:
    """A knob that acts gives no notice."""
    assert () == find_notes({variable: value})


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"AUTOTUNE_LOG": "x.jsonl"}, "AUTOTUNE_LOG is"),
        ({"HOROVOD_AUTOTUNE_LOG": "foo.csv"}, "HOROVOD_AUTOTUNE_LOG is"),
        ({"AUTOTUNE_MAX_STEPS": "300", "AUTOTUNE_LOG": "x.jsonl"}, "AUTOTUNE_LOG and AUTOTUNE_MAX_STEPS are"),
    ],
)
def test_variables_of_a_tuner_that_is_not_on_are_noted(environ: dict[str, str], named: str) -> None:
    """A log or a budget without AUTOTUNE=1 gives one sentence; with AUTOTUNE=0, which is meant, none."""
    notes = find_notes(environ)

    assert (f"{named} set, but AUTOTUNE is not 1: nothing is tuned",) == notes
    for switch in ({"AUTOTUNE": "0"}, {"AUTOTUNE": "1"}, {"HOROVOD_AUTOTUNE": "0"}):
        assert () == find_notes({**environ, **switch})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AUTOTUN", "AUTOTUNE"),
        ("AUTO_TUNE", "AUTOTUNE"),
        ("AUTOTNUE", "AUTOTUNE"),
        ("ATOTUN", "AUTOTUNE"),
        ("autotune", "AUTOTUNE"),
        ("AUTOTUNER", "AUTOTUNE"),
        ("ATUOTUNE_LOG", "AUTOTUNE_LOG"),
        ("AUTOTUN_MAX_STEP", "AUTOTUNE_MAX_STEPS"),
        ("RINGTUN_CYCLE_MS", "RINGTUNE_CYCLE_MS"),
        ("RING_TUNE_TRANSPORT", "RINGTUNE_TRANSPORT"),
        ("HORVOD_CYCLE_TIME", "HOROVOD_CYCLE_TIME"),
    ],
)
def test_a_slip_anywhere_in_a_name_is_noted(name: str, meant: str) -> None:
    """A letter or two, the case, or an underscore; the launcher's word for it is enough."""
    (note,) = find_slips({name: "1"})

    assert note.startswith(f"{name} is not a variable of ")
    assert note.endswith(f"; did you mean {meant}?")
    assert () == find_slips({name: "1", "RINGTUNE_SLIPS_TOLD": f"X,{name}"})


def test_other_programs_names_are_no_slips() -> None:
    """Names that begin alike, or are another word, are none of our business."""
    names = [
        "AUTOTOOLS",
        "AUTOTEST",
        "AUTOTYPE",
        "AUTOTIME",
        "AUTOMAKE",
        "AUTOCONF",
        "AUTO",
        "AUTOTOOLS_VERSION",
        "AUTOHEADER",
        "AUTOM4TE",
        "AUTOSTART",
        "RINGTONE",
        "RING",
        "TUNE",
        "TUNED_PROFILE",
        "HOROVOD_WITH_PYTORCH",
        "HOROVOD_GPU_OPERATIONS",
        "HOROVOD_RANK",
        "HOROVOD_CONTROLLER",
        "LOG_LEVEL",
        "TRANSPORT",
        "TIMELINE",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "NCCL_DEBUG",
        "OMP_NUM_THREADS",
        "TERM",
        "LANG",
        "PATH",
        "AUTOTUNE_SERVICE_URL",
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "TRITON_PRINT_AUTOTUNING",
        "BAGUA_AUTOTUNE",
        "XLA_FLAGS",
    ]

    assert () == find_slips(dict.fromkeys(names, "1"))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AUTOTUNELOG", "AUTOTUNE_LOG"),
        ("AUTOTUNE_MAX_SAMPLE", "AUTOTUNE_MAX_SAMPLES"),
        ("AUTOTUNEMAX_SAMPLES", "AUTOTUNE_MAX_SAMPLES"),
        ("RINGTUNE_FUSION_BITES", "RINGTUNE_FUSION_BYTES"),
    ],
)
def test_an_unknown_name_is_noted_with_the_nearest_one(name: str, meant: str) -> None:
    """A forgotten underscore is as silent a mistake as a wrong letter; other programs' variables are none."""
    (note,) = find_notes({name: "3", "AUTOTUNE": "1", "PATH": "/bin", "RINGTUNE_RANK": "0"})

    assert f"{name} is not a variable of ringtune; did you mean {meant}?" == note


def test_no_documented_variable_is_taken_for_a_slip() -> None:
    """Every name that the reference explains is known, whoever reads it."""
    page = (REPOSITORY / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`((?:RINGTUNE|AUTOTUNE|HOROVOD)[A-Z0-9_]*)`", page))

    assert len(names) > 40
    assert () == find_slips(dict.fromkeys(names, "1"))


def test_the_services_variables_are_no_mistake() -> None:
    """A machine may run both; the two that jobs have under another prefix are pointed out."""
    assert () == find_notes({"RINGTUNE_SERVICE_PORT": "1", "RINGTUNE_SERVICE_ADMIN_TOKEN": "x"})

    (note,) = find_notes({"RINGTUNE_SERVICE_URL": "http://x"})

    assert "AUTOTUNE_SERVICE_URL" in note


@pytest.mark.parametrize(
    ("environ", "ranks_per_host", "knob", "value"),
    [
        ({"RINGTUNE_HIERARCHICAL_ALLREDUCE": "1"}, [4], "hierarchical_allreduce", False),
        ({"RINGTUNE_HIERARCHICAL_ALLGATHER": "1"}, [1, 1], "hierarchical_allgather", False),
        ({"AUTOTUNE_BASELINE": "hierarchical_allreduce=1"}, [1], "hierarchical_allreduce", False),
        ({"RINGTUNE_ALLREDUCE_ALGORITHM": "direct"}, [2, 2], "allreduce_algorithm", "auto"),
        ({"RINGTUNE_ALLREDUCE_ALGORITHM": "ring"}, [4], "allreduce_algorithm", "auto"),
    ],
)
def test_a_knob_that_cannot_act_is_ignored_and_noted_once(
    environ: dict[str, str], ranks_per_host: list[int], knob: str, value: object
) -> None:
    """One job runs unchanged at any size."""
    settings = Settings.from_environment(environ, ["direct", "ring"])

    fitted, notes = settings.fitted(ranks_per_host)

    assert value == fitted.baseline[knob]
    assert value == fitted.fixed.get(knob, value)
    (note,) = notes
    assert knob in note


@pytest.mark.parametrize(
    ("environ", "is_hierarchical"),
    [
        ({}, True),
        ({"RINGTUNE_CYCLE_MS": "2"}, True),
        ({"RINGTUNE_HIERARCHICAL_ALLREDUCE": "0"}, False),
        ({"HOROVOD_HIERARCHICAL_ALLREDUCE": "0"}, False),
        ({"AUTOTUNE_BASELINE": "hierarchical_allreduce=0"}, False),
    ],
)
def test_the_layout_decides_the_default_and_the_user_the_value(environ: dict[str, str], is_hierarchical: bool) -> None:
    """Between hosts of several ranks the hierarchical allreduce is on, unless somebody switches it off."""
    settings, notes = Settings.from_environment(environ).fitted([2, 2])

    assert () == notes
    assert is_hierarchical == settings.baseline["hierarchical_allreduce"]
    assert ("hierarchical_allreduce" in settings.fixed) == any("HIERARCHICAL" in name for name in environ)
    assert settings.fixed.items() <= settings.baseline.items()


@pytest.mark.parametrize("ranks_per_host", [[2, 2], [1, 3]])
def test_a_knob_that_can_act_is_left_alone(ranks_per_host: list[int]) -> None:
    """Several hosts, one of them with several ranks, are the layout that the hierarchical switches are for."""
    settings = Settings.from_environment({"RINGTUNE_HIERARCHICAL_ALLREDUCE": "1"})

    assert (settings, ()) == settings.fitted(ranks_per_host)


def test_a_token_is_not_in_what_is_printed_or_told_to_other_ranks() -> None:
    """A traceback may show the settings; ranks compare their settings, and name the differences."""
    settings = Settings.from_environment({"AUTOTUNE_SERVICE_TOKEN": "hunter2", "RINGTUNE_CYCLE_MS": "2"})
    offer = public_offer(settings)

    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(offer)
    assert 2.0 == offer.given["RINGTUNE_CYCLE_MS"]
    assert "hunter2" == settings.service_token


def test_a_tuner_that_was_not_asked_for_has_no_limit_of_seconds_unless_one_is_set() -> None:
    """`auto` is neither on nor off: the tuner runs, with limits of its own or the user's."""
    requested = Settings.from_environment({"AUTOTUNE": "1"})
    unasked = Settings.from_environment({"AUTOTUNE": " Auto"})
    limited = Settings.from_environment({"AUTOTUNE": "auto", "AUTOTUNE_MAX_SECONDS": "90"})

    assert [(True, False), (True, True), (True, True)] == [
        (s.autotune, s.is_unasked) for s in (requested, unasked, limited)
    ]
    assert [120.0, None, 90.0] == [settings.limits.max_seconds for settings in (requested, unasked, limited)]
    assert "auto" == unasked.effective()["AUTOTUNE"]
