# SPDX-License-Identifier: Apache-2.0
"""Tests of the settings to paste: the engine's own parser reads them back as the chosen config."""

from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.settings.settings import Settings
from ringtune.tuner import Config, default_config
from ringtune.tuner.review import review_log, settings_to_paste
from ringtune.tuner.testing import SyntheticTarget, flat_surface
from tests.unit.tuner.review.logs import BAGUA, HOROVOD, logged, reviewed


def test_pasted_settings_give_the_chosen_config(tmp_path: Path) -> None:
    """Read by the settings themselves."""
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(seed=1))
    run = review_log(tmp_path / "x.jsonl").runs[0]
    assert run.adopted

    lines = settings_to_paste(run)
    fixed = Settings.from_environment(dict(line.split("=", 1) for line in lines)).fixed

    assert run.chosen is not None
    assert {name: value for name, value in run.chosen.items() if value != default_config()[name]} == fixed


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (64 << 20, "64MiB"), (192 << 10, "192KiB"), (1000, "1000")])
def test_sizes_have_the_largest_whole_unit(tmp_path: Path, value: int, text: str) -> None:
    """A size has no fraction."""
    logged(tmp_path / "x.jsonl", max_samples=2)
    run = review_log(tmp_path / "x.jsonl").runs[0]
    run = replace(run, baseline=default_config(), chosen=default_config().replace({"fusion_bytes": value}))

    assert settings_to_paste(run) == ([] if value == 64 << 20 else [f"RINGTUNE_FUSION_BYTES={text}"])


def test_keeping_the_default_sets_nothing(tmp_path: Path) -> None:
    """A run that did not finish has no settings either."""
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(surface=flat_surface))
    run = review_log(tmp_path / "x.jsonl").runs[0]

    assert [] == settings_to_paste(run)
    assert [] == settings_to_paste(replace(run, chosen=None))


def test_foreign_settings_have_their_own_names(tmp_path: Path) -> None:
    """Horovod's threshold is in bytes in the environment, whatever unit its log has."""
    horovod, bagua = reviewed(tmp_path / "h.csv", HOROVOD), reviewed(tmp_path / "b.log", BAGUA)

    assert ["HOROVOD_FUSION_THRESHOLD=4246198", "HOROVOD_CYCLE_TIME=5.103"] == settings_to_paste(horovod)
    assert ["BAGUA_DEFAULT_BUCKET_SIZE=134217728"] == settings_to_paste(bagua)


def test_switches_that_horovod_had_not_come_to_are_not_set(tmp_path: Path) -> None:
    """Its search begins with the cache off: a row with 0 there is no finding; once both were tried it is."""
    header, *rows = HOROVOD.replace(" 1,", " 0,").splitlines()
    begun = reviewed(tmp_path / "a.csv", "\n".join([header, *rows]))
    further = reviewed(tmp_path / "b.csv", "\n".join([header, *rows[:-1], "0,0,0, 1,5,4,700", "0,0,0, 1,5,4,700"]))

    assert not any("CACHE" in line for line in settings_to_paste(begun))
    assert "HOROVOD_CACHE_CAPACITY=1024" in settings_to_paste(further)


def test_a_log_cannot_put_a_command_into_a_shell(tmp_path: Path) -> None:
    """Values are quoted, and names that are no setting are left out."""
    logged(tmp_path / "x.jsonl", max_samples=2)
    run = review_log(tmp_path / "x.jsonl").runs[0]
    hostile = Config({"allreduce_algorithm": "auto; rm -rf ~", "$(reboot)": 1})

    assert ["RINGTUNE_ALLREDUCE_ALGORITHM='auto; rm -rf ~'"] == settings_to_paste(replace(run, chosen=hostile))
