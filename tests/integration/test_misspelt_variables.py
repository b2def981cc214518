# SPDX-License-Identifier: Apache-2.0
"""A misspelt variable is one warning per job, with the nearest name, whatever the job's ranks do."""

import pytest

from tests.integration.jobs import forked, launched, ranks, run_job
from tests.integration.worlds import run_all_forked

MISSPELT = {"AUTOTUNE_MAX_SAMPLE": "3", "RINGTUNE_FUSION_BITES": "1", "HOROVOD_CYCLE_TIM": "2"}
EXPECTED = [
    "AUTOTUNE_MAX_SAMPLE is not a variable of ringtune; did you mean AUTOTUNE_MAX_SAMPLES?",
    "HOROVOD_CYCLE_TIM is not a variable of Horovod's; did you mean HOROVOD_CYCLE_TIME?",
    "RINGTUNE_FUSION_BITES is not a variable of ringtune; did you mean RINGTUNE_FUSION_BYTES?",
]


def slips(text: str) -> list[str]:
    """Return the notices about variables' names, in alphabetical order."""
    lines = [line for line in text.splitlines() if "did you mean" in line]
    return sorted(line.removeprefix("ringtune: warning: rank 0: ") for line in lines)


def test_a_job_warns_once() -> None:
    """Rank 0 does, at the first `init()` alone; none of the others, and no process set."""
    finished = run_job(ranks(3, "begins_twice"), MISSPELT)

    assert 0 == finished.code, finished.text
    assert EXPECTED == slips(finished.stderr), finished.text


def test_the_launcher_warns_for_its_job() -> None:
    """Names that do not go to other hosts are reported as well, before the ranks start; rank 0 repeats none."""
    finished = run_job(launched(2, "where"), {**MISSPELT, "AUTO_TUNE": "1"})

    assert 0 == finished.code, finished.text
    slip = "AUTO_TUNE is not a variable of ringtune; did you mean AUTOTUNE?"
    expected = [f"ringtune run: warning: {text}" for text in (EXPECTED[0], slip, *EXPECTED[1:])]
    assert expected == slips(finished.stderr), finished.text


def test_a_level_above_warnings_silences_it() -> None:
    """A level above warnings silences the notice of a misspelt name, as it does every warning."""
    finished = run_job(ranks(2, "begins_twice"), {**MISSPELT, "RINGTUNE_LOG_LEVEL": "error"})

    assert (0, []) == (finished.code, slips(finished.stderr)), finished.text


@pytest.mark.timeout(300)
def test_the_tuner_of_torchs_own_ddp_warns_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """There the engine, which would, is not used; once for all models of a process."""
    folder = tmp_path_factory.mktemp("ddp")
    commands = [forked("ddp_autotune", str(r), str(folder / "store"), "nothing,closed", "log") for r in range(2)]

    finished = run_all_forked(commands, [MISSPELT, MISSPELT], deadline_s=240)

    assert [0, 0] == [rank.code for rank in finished], finished[0].text
    assert EXPECTED == slips("".join(rank.stderr for rank in finished)), finished[0].text
