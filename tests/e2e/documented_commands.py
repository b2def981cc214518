# SPDX-License-Identifier: Apache-2.0
"""Read a page's commands to run from the documentation: comments before fenced blocks, which readers do not see.

| comment | the block below it |
|---|---|
| `run` | is run by bash, where the blocks before it have left off |
| `run: long` | as `run`, in the long tests alone |
| `run: mpi` | is run where there is an MPI: by hand |
| `run: platform` | is run by the test of its platform, in `tests/platforms` |
| `run: until WORD` | runs on in the background, from the moment at which it has written WORD |
| `file: NAME` | is written to a file |
| `given: NAME of PAGE` | (no block) is the file of another page, or a tuning log |
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

BLOCK = re.compile(
    r"(?:^[ ]*<!-- (?P<duty>run|file|given)(?:: (?P<about>[^>]*?))? -->\n)?"
    r"(?:^(?P<indent>[ ]*)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$)?",
    re.MULTILINE | re.DOTALL,
)
UNTIL = "until "


@dataclass(frozen=True)
class Block:
    """A fenced block, or a comment without one.

    Attributes:
        duty: `run`, `file`, `given`, or empty for a block that is only shown.
        about: The text after the duty in the comment.
        language: The language as the fence names it.
        text: The lines of the block.
    """

    duty: str
    about: str
    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, and the comments that announce files, in their order."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    fields = (tuple(match[name] or "" for name in ("duty", "about", "language", "text")) for match in found)
    return [Block(duty, about, language, dedent(text)) for duty, about, language, text in fields if duty or text]


def file_of(page: Path, name: str) -> str:
    """Return the text of a file that a page shows.

    Raises:
        ValueError: If the page has no such file.
    """
    for block in blocks_of(page):
        if (block.duty, block.about) == ("file", name):
            return block.text
    raise ValueError(f"{page} has no block that is the file {name}")


def script_of(blocks: Sequence[Block], kinds: Sequence[str] = ("",)) -> str:
    """Return a bash script that runs a page from top to bottom, and ends at the first failure.

    Args:
        blocks: The page's.
        kinds: Words after `run:` of the blocks that are run; the empty word stands for `run` alone.
    """
    lines = ["set -euo pipefail", *_lines(blocks, kinds)]
    return "\n".join(lines) + "\n"


def _lines(blocks: Sequence[Block], kinds: Sequence[str]) -> Iterator[str]:
    for block in blocks:
        if block.duty == "run" and block.about in kinds:
            yield block.text
        elif block.duty == "run" and block.about.startswith(UNTIL):
            yield f"coproc BACKGROUND {{ exec {block.text.strip()} 2>&1; }}"
            yield "trap 'kill $BACKGROUND_PID' EXIT"
            yield f'grep -m1 -q {block.about.removeprefix(UNTIL)} <&"${{BACKGROUND[0]}}"'
