# SPDX-License-Identifier: Apache-2.0
"""Error of a rank in a task, in a form that the driver finds again in Spark's own words."""

import re
import traceback

from ringtune.errors import DismissedError, PeerLostError, RingtuneError
from ringtune.run_function import RankFailedError

_END = "\n(end of the rank's traceback)"
_RAISED = re.compile(
    r"RankError: (?P<text>rank (?P<rank>[0-9]+) of [0-9]+ raised .*?\n\n(?P<traceback>.*?))" rf"{re.escape(_END)}",
    re.DOTALL,
)


class RankError(RingtuneError):
    """The function raised on a rank: the message has its traceback, for Spark's own may leave causes out."""


def rank_error(rank: int, size: int, error: BaseException) -> RankError:
    """Return the error of a rank whose function has raised; its traceback begins in the function."""
    frames = error.__traceback__
    inner = None if frames is None else frames.tb_next
    shown = "".join(traceback.format_exception(type(error), error, inner)).rstrip()
    return RankError(f"rank {rank} of {size} raised {type(error).__name__}: {error}\n\n{shown}{_END}")


def failure_in(text: str) -> RankFailedError | None:
    """Return the failure of the rank whose error stands in a text of Spark's; None where there is none."""
    match = _RAISED.search(text)
    return None if match is None else RankFailedError(match["text"], int(match["rank"]), match["traceback"])


def is_consequence(error: BaseException | None) -> bool:
    """Return whether an error comes from the loss of another rank, whose own error has the cause."""
    return _comes_from(error, PeerLostError)


def is_dismissal(error: BaseException) -> bool:
    """Return whether an error, such as the `SystemExit` of `init()`, means that the job does without this rank."""
    return _comes_from(error, DismissedError)


def _comes_from(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
