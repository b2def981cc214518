# SPDX-License-Identifier: Apache-2.0
"""Messages between the comparison and the ranks that it starts: an order in an argument, records among the output.

A record is one line of the job's output that begins with a mark and the token of its run. No script's own output
has the token, and a line is written with one call, so that other ranks' lines do not mix with it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Arm = Literal["ddp", "ringtune"]
ARMS: tuple[Arm, Arm] = ("ddp", "ringtune")
MARK = b"ringtune-compare "
STDOUT_DESCRIPTOR = 1
ENGINE_SESSION = "ringtune.session.session"
"""Module of the engine's world; imported by a script that uses the engine, and by no other."""


@dataclass(frozen=True)
class RunOrder:
    """The task of the ranks of one run.

    Attributes:
        token: Token of the run; begins its records.
        arm: Engine that reduces the gradients.
        warmup_steps: Steps before the first that counts, at least 1.
        steps: Steps that count; the run ends after them.
        master_address: Address at which rank 0 of torch's process group listens.
        master_port: Its port.
        is_module: Whether the program is a module's name, as of `python -m`.
        serves_groups: Whether the program's process groups are the engine's in that arm, and not its gradients alone.
    """

    token: str
    arm: Arm
    warmup_steps: int
    steps: int
    master_address: str
    master_port: int
    is_module: bool = False
    serves_groups: bool = False

    def to_argument(self) -> str:
        """Return the order as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> "RunOrder":
        """Return the order that an argument holds."""
        return cls(**json.loads(argument))


class RecordWriter:
    """Writes records to where the process's standard output was when it began."""

    def __init__(self, token: str) -> None:
        """Keep the standard output of now: a script may close or replace its own."""
        self._begin = b"\n" + MARK + token.encode() + b" "
        self._descriptor = os.dup(STDOUT_DESCRIPTOR)

    def write(self, kind: str, **fields: Any) -> None:
        """Write a record; raises OSError where the reader is gone."""
        os.write(self._descriptor, self._begin + json.dumps({"kind": kind, **fields}).encode() + b"\n")


def record_in(line: bytes, token: str) -> Mapping[str, Any] | None:
    """Return the record in a line of output, None for the script's own output."""
    begin = MARK + token.encode() + b" "
    _, mark, text = line.partition(begin)
    if not mark:
        return None
    try:
        record = json.loads(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
