# SPDX-License-Identifier: Apache-2.0
"""A command that is tuned again with the log of a finished run: it goes on with a larger budget, or begins anew."""

import re
from pathlib import Path

from ringtune.tuner import read_log
from tests.integration.jobs import ringtune, run_job
from tests.integration.tuned_commands import launches, tune, tune_script, tuned_program

MIB = 2**20


def test_a_finished_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    """Its configs are not searched again, failed ones not launched; report and review have the knobs of both runs."""
    command = tuned_program(tmp_path, f"fails-below={2 * MIB}")
    first = run_job(tune(tmp_path, command, "--max-samples", "6"))
    before = len(launches(tmp_path))

    second = run_job(tune(tmp_path, command, "--max-samples", "9"))

    assert (0, 0) == (first.code, second.code), second.text
    assert re.search(
        r"going on from the run of 20\d\d-\d\d-\d\d \d\d:\d\d: \d configs were measured before", second.stderr
    )
    (old, new) = (run.samples for run in read_log(tmp_path / "log").runs)
    searched = [
        [str(sample.config["fusion_bytes"]) for sample in run if sample.phase == "search"] for run in (old, new)
    ]
    assert [6, 3] == [len(configs) for configs in searched]
    assert set() == set(searched[0]) & set(searched[1])
    failed = {str(sample.config["fusion_bytes"]) for sample in old if not sample.valid}
    assert [] == [value for value in launches(tmp_path)[before:] if value in failed]
    matters = re.search(
        r"^matters: fusion_bytes: (\S+ %) .* (\d+) of [\d,]+ values tried$", second.stdout, re.MULTILINE
    )
    assert matters is not None, second.text
    reviewed = run_job(ringtune("review", str(tmp_path / "log"))).stdout
    assert re.search(rf"^fusion_bytes +{re.escape(matters[1])} .* {matters[2]} +matters", reviewed, re.MULTILINE), (
        reviewed
    )


def test_a_finished_run_is_not_repeated_without_a_word(tmp_path: Path) -> None:
    """The first line has the verdict in the log, and the way to go on instead; --anew begins anew in any case."""
    script = "for i in range(9): print('ringtune: step_ms=5.0')"
    budgets = [["2"], ["2"], ["3", "--anew"]]

    runs = [tune_script(tmp_path, script, "--max-samples", *budget).stderr for budget in budgets]

    assert "the log has a finished run" not in runs[0]
    assert ": keeping default: no configuration is expected" in runs[1]
    assert "Everything is measured anew; a budget larger than --max-samples 2 would go on from it\n" in runs[1]
    assert "Everything is measured anew\n" in runs[2]
    assert [[], [], []] == [run.run.continues for run in read_log(tmp_path / "log").runs if run.run is not None]
