# SPDX-License-Identifier: Apache-2.0
"""Results of an elastic call: of the workers that took part in the latest meeting, in the order of their ranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .call_folder import CallFolder
from .failures import RankFailedError
from .packing import read_data


@dataclass(frozen=True)
class _Outcome:
    """Outcome of one worker.

    Attributes:
        meeting: Number of its latest meeting; -1 if it has had none.
        rank: Its rank there.
        fields: Result, or error.
    """

    meeting: int
    rank: int
    fields: dict[str, Any]

    @property
    def has_failed(self) -> bool:
        return "error" in self.fields


def elastic_results(folder: CallFolder, code: int) -> list[Any]:
    """Return the results of an elastic job.

    Args:
        folder: Folder of the call.
        code: Exit code of the job.

    Raises:
        RankFailedError: If the job has failed, with the error of the first worker that raised in its last meeting.
    """
    outcomes = _latest(_outcomes(folder))
    failures = [outcome for outcome in outcomes if outcome.has_failed]
    results = [outcome.fields["result"] for outcome in outcomes if not outcome.has_failed]
    if code == 0 and results:
        return results
    if failures:
        raise _failure(failures)
    raise RankFailedError(
        f"the job ended without results (exit code {code}); what the launcher and the workers have said on standard "
        "error tells more"
    )


def _latest(outcomes: Sequence[_Outcome]) -> list[_Outcome]:
    """Return the outcomes of the workers of the latest meeting."""
    last = max((outcome.meeting for outcome in outcomes), default=-1)
    return [outcome for outcome in outcomes if outcome.meeting == last]


def _outcomes(folder: CallFolder) -> list[_Outcome]:
    """Return the outcomes of all workers, by rank."""
    found = []
    for path in folder.worker_outcomes():
        fields = read_data(path)
        meeting, rank = fields["latest"] or (-1, 0)
        found.append(_Outcome(int(meeting), int(rank), fields))
    return sorted(found, key=lambda outcome: outcome.rank)


def _failure(failures: Sequence[_Outcome]) -> RankFailedError:
    first = min(failures, key=lambda outcome: float(outcome.fields["at_s"]))
    rank = first.rank if first.meeting >= 0 else None
    text = first.fields["traceback"]
    who = "a worker" if rank is None else f"rank {rank}"
    return RankFailedError(f"{who} raised {first.fields['error']}\n\n{text}", rank, text)
