# SPDX-License-Identifier: Apache-2.0
"""Settings to paste: they set the recommended config, and no text invented by a report comes into a shell."""

import json
import os
import shlex
import subprocess

import pytest

from ringtune.dashboards.web.config_snippets import ConfigUse, snippets_of
from ringtune.settings.settings import Settings
from ringtune.tuner import Config, Value, default_config
from ringtune.tuning.command.engines import find_engine
from tests.unit.dashboards.hostile import VECTORS

PLACE = ConfigUse(model="resnet50", hardware="a" * 64, world_size=8, local_size=4, target="ringtune")


def sourced(script: str) -> dict[str, str]:
    """Return a shell's environment after a script."""
    run = subprocess.run(
        ["sh", "-c", f"{script}\nexec env -0"], env={"PATH": os.environ["PATH"]}, capture_output=True, check=True
    )
    return dict(line.split("=", 1) for line in run.stdout.decode().split("\0") if line)


def test_the_exports_set_every_knob_as_recommended() -> None:
    """The exports have the same values when the engine's own settings read them."""
    config = default_config().replace({"cycle_ms": 0.3297, "fusion_bytes": 4325376, "response_cache": False})

    variables = sourced(snippets_of(config, PLACE, "measured")[0].text)

    assert config == Config(Settings.from_environment(variables).fixed)


def test_the_json_is_the_config() -> None:
    """Whole."""
    assert default_config().to_json() == json.loads(snippets_of(default_config(), PLACE, "")[1].text)


def test_hostile_texts_stay_words() -> None:
    """Hostile texts stay words as comments, names and values; a parameter that the engine lacks is left out."""
    for text in (*VECTORS, "$(exit 3)", "`exit 3`", "; exit 3", "\nexit 3", "\r\nexit 3", "'; exit 3; '"):
        config = Config({**default_config(), "allreduce_algorithm": text, "PATH": "/nowhere"})
        place = ConfigUse(text, None, 2, 2, "ringtune")

        exports, _, command = snippets_of(config, place, text)

        variables = sourced(exports.text.replace("\ud800", "?"))
        assert text.replace("\ud800", "?") == variables["RINGTUNE_ALLREDUCE_ALGORITHM"]
        assert os.environ["PATH"] == variables["PATH"]
        assert text == shlex.split(command.text)[3]


def test_another_engine_s_config_is_exported_in_its_words() -> None:
    """Another engine's export is that of `ringtune recommend --format env`; settings that need a file are named."""
    chosen: dict[str, Value] = {"fusion_bytes": 1 << 20, "cycle_ms": 2.5, "hierarchical_allreduce": "on"}
    horovod = find_engine("horovod").baseline().replace(chosen)
    ruled: dict[str, Value] = {"small_algorithm": "ring", "segment_bytes": 65536, "yield_when_idle": "on"}
    openmpi = find_engine("openmpi").baseline().replace(ruled)

    exported = snippets_of(horovod, ConfigUse("m", None, 2, 2, "horovod"), "measured")
    by_rules = snippets_of(openmpi, ConfigUse("m", None, 2, 2, "openmpi"), "")

    variables = {name: value for name, value in sourced(exported[0].text).items() if name.startswith("HOROVOD_")}
    assert {
        "HOROVOD_FUSION_THRESHOLD": "1048576",
        "HOROVOD_CYCLE_TIME": "2.5",
        "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
    } == variables
    assert exported[-1].text.endswith("--target horovod --format env")
    assert "OMPI_MCA_mpi_yield_when_idle=true" in by_rules[0].text
    assert "Without small_algorithm, segment_bytes, which take a file" in by_rules[0].note


@pytest.mark.parametrize("text", ["on; exit 3", "$(exit 3)", "'"])
def test_what_another_engine_does_not_know_is_not_exported(text: str) -> None:
    """A report may say anything."""
    config = Config({**find_engine("horovod").baseline(), "hierarchical_allreduce": text})

    assert ["JSON", "Command"] == [
        paste.title for paste in snippets_of(config, ConfigUse("m", None, 2, 2, "horovod"), "")
    ]


def test_what_is_no_config_of_an_engine_is_not_exported() -> None:
    """A config without settings has no export, and an engine without variables offers none."""
    other = snippets_of(Config({"bucket_cap_mb": 25}), ConfigUse("m", None, 2, 2, "torch-ddp"), "")
    nothing = snippets_of(Config({}), ConfigUse("m", None, 2, 2, "openmpi"), "")

    assert ["JSON", "Command"] == [paste.title for paste in other]
    assert other[1].text.endswith("--target torch-ddp --format table")
    assert ["Command"] == [paste.title for paste in nothing]
    assert "--target openmpi" in nothing[0].text
