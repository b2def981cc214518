# SPDX-License-Identifier: Apache-2.0
"""`ringtune simulate` as a user calls it."""

import json

from tests.e2e.commands import run_ringtune

RACK = ["--hosts", "8", "--ranks-per-host", "8", "--link", "25gbit"]


def test_it_says_what_to_expect_and_draws_the_surface() -> None:
    """For a model on many hosts: the step, the gain, each knob's curve, and the two that matter most as a map."""
    done = run_ringtune("simulate", "--model", "resnet50", *RACK)

    assert 0 == done.returncode
    assert all(text in done.stdout for text in ("8 x 8 ranks", "Tuning could gain", "fusion_bytes by cycle_ms"))
    assert "" == done.stderr


def test_its_json_has_the_same() -> None:
    """A best config that is faster than the baseline, as numbers."""
    done = run_ringtune("simulate", "--model", "resnet50", "--compute-ms", "120", *RACK, "--json")

    answer = json.loads(done.stdout)

    assert 120 == round(answer["compute_ms"])
    assert answer["best"]["config"]["hierarchical_allreduce"]
    assert answer["speedup"] == answer["baseline"]["step_ms"] / answer["best"]["step_ms"] - 1 > 0.02


def test_what_cannot_be_simulated_is_said_in_one_paragraph() -> None:
    """Unknown models, links that are none, and times that cannot be: usage errors that name the value."""
    for arguments, named in (
        (["--model", "resnet5"], "'resnet5'"),
        (["--model", "resnet50", "--link", "fast"], "'fast'"),
        (["--model", "resnet50", "--compute-ms", "-3"], "resnet50"),
        (["--model", "resnet50", "--hosts", "0"], "hosts=0"),
        (["--model", "/nowhere/model.json"], "/nowhere/model.json"),
    ):
        done = run_ringtune("simulate", *arguments)
        assert 2 == done.returncode
        assert done.stderr.startswith("ringtune: error:")
        assert named in done.stderr
        assert 1 == done.stderr.count("\n")
