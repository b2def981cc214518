# SPDX-License-Identifier: Apache-2.0
"""Tests of configs."""

import json

import pytest

from ringtune.tuner import Config


def test_configs_with_equal_items_are_one_key() -> None:
    """Order does not matter to equality and hash."""
    first = Config({"cycle_ms": 1.0, "response_cache": True})
    second = Config({"response_cache": True, "cycle_ms": 1.0})

    assert {first: "x"}[second] == "x"


def test_later_changes_of_the_source_do_not_show() -> None:
    """A config copies its source."""
    source = {"cycle_ms": 1.0}
    config = Config(source)

    source["cycle_ms"] = 2.0

    assert 1.0 == config["cycle_ms"]


def test_replace_leaves_the_original_alone() -> None:
    """A changed copy is another config."""
    config = Config({"cycle_ms": 1.0, "fusion_bytes": 0})

    changed = config.replace({"cycle_ms": 5.0})

    assert (1.0, 5.0, 0) == (config["cycle_ms"], changed["cycle_ms"], changed["fusion_bytes"])


def test_a_config_cannot_be_assigned_to() -> None:
    """Configs are keys of dictionaries and travel between threads: they never change."""
    config = Config({"cycle_ms": 1.0})

    with pytest.raises(TypeError):
        config["cycle_ms"] = 2.0  # type: ignore[index]


def test_json_round_trip() -> None:
    """A config read back from JSON is the same."""
    config = Config({"cycle_ms": 0.25, "fusion_bytes": 65536, "response_cache": False, "chunk_bytes": "auto"})

    assert config == Config(json.loads(json.dumps(config.to_json())))


def test_text_reads_like_assignments() -> None:
    """Messages show a config as a person would write it."""
    config = Config({"cycle_ms": 0.25, "fusion_bytes": 0})

    assert "cycle_ms=0.25, fusion_bytes=0" == str(config)
