# SPDX-License-Identifier: Apache-2.0
"""Comparisons that are kept: finished runs are not run again."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.tuner.regret.contestants import RIVALS, missing_of
from benchmarks.tuner.regret.harness import KeptOutcomes, RegretBenchmark, _sources_digest, run
from benchmarks.tuner.regret.problems import Sources
from ringtune import tuner
from ringtune.errors import ConfigError
from tests.unit.benchmarks.tuner.regret.small_surface import surface

COMPARISON = RegretBenchmark(Sources(), ("aa_manysmall_np2",), ("baseline", "random"), (30, 60), range(2))


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    """Marked outcomes come back as they were kept; the run behind the torn line is done anew."""
    first = [found for found in COMPARISON.outcomes(1) if found[0].rival == "random"]
    kept = KeptOutcomes(tmp_path / "kept", Sources())
    for found in first:
        kept.add([replace(outcome, regret=7.0) for outcome in found])
    whole = (tmp_path / "kept").read_bytes()
    (tmp_path / "kept").write_bytes(whole[:-9])

    again = list(COMPARISON.outcomes(1, KeptOutcomes(tmp_path / "kept", Sources())))

    marked = [outcome for found in again for outcome in found if outcome.regret == 7.0]
    assert 4 == len(again)
    assert [first[0][0].seed] * 2 == [outcome.seed for outcome in marked]
    assert 2 == len(KeptOutcomes(tmp_path / "kept", Sources()).of(COMPARISON.runs[-1]))


def test_outcomes_of_another_version_are_refused(tmp_path: Path) -> None:
    """Outcomes of another version are no longer those of this tuner."""
    (tmp_path / "kept").write_text('{"sources": "other"}\n[]\n')

    with pytest.raises(ConfigError, match="another version of the tuner; remove it"):
        KeptOutcomes(tmp_path / "kept", Sources())


def test_outcomes_on_a_surface_that_was_recorded_anew_are_not_taken(tmp_path: Path) -> None:
    """A surface in another folder, or from another recording, is another problem under the same name."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    surface(before)
    surface(after, slower_by_ms=1.0)
    wanted = ("recorded_small", "baseline", 0)
    KeptOutcomes(tmp_path / "kept", Sources(before)).add(run(Sources(before), *wanted, (30,)))

    assert 1 == len(KeptOutcomes(tmp_path / "kept", Sources(before)).of(wanted))
    assert [] == KeptOutcomes(tmp_path / "kept", Sources(after)).of(wanted)


@pytest.mark.parametrize("rival", [name for name in RIVALS if "warm" not in name])
def test_every_rival_picks_at_every_budget(rival: str) -> None:
    """A legal config, whatever the problem's parameters are."""
    if missing := missing_of(rival):
        pytest.skip(f"{rival} needs {', '.join(missing)}, which is no dependency of the tests")

    outcomes = run(Sources(), "manysmall_np2", rival, 0, (30, 60))

    assert [30, 60] == [outcome.budget for outcome in outcomes]
    assert all(-1.0 < outcome.loss for outcome in outcomes)


def test_outcomes_depend_on_the_sources_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout below a folder that is named as one that is left out has a digest like any other."""
    digests = []
    for place in (tmp_path / "a", tmp_path / "review"):
        folder = place / "tuner"
        (folder / "review").mkdir(parents=True)
        (folder / "designer.py").write_text("first")
        (folder / "review" / "table.py").write_text(place.name)
        (folder / "__init__.py").write_text("")
        monkeypatch.setattr(tuner, "__file__", str(folder / "__init__.py"))
        digests.append(_sources_digest())
    (tmp_path / "review" / "tuner" / "designer.py").write_text("second")

    assert digests[0] == digests[1] != _sources_digest()
