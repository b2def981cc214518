# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile logs: any file is read or its bad lines are named, and no error is raised."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.tuner.review import Review, render_review, review_log, to_json
from tests.unit.tuner.review.logs import BAGUA, HOROVOD, logged

MUTATIONS = 300
MANY_MUTATIONS = 10_000
NASTY = (
    b"NaN", b"Infinity", b"-1", b"1e999", b"1e-320", b"1e308", b"0", b"true", b"null", b'"x"', b"[]", b"{}",
    b"9" * 400, b'"<script>"', b'"\\ud800"', b"[" * 50, b"18446744073709551616", b"\xff\xfe", b"", b"\r", b"\x00", b",",
)  # fmt: skip
NUMBER = b"0123456789.-e"


def show_json(review: Review) -> None:
    """Show a review to programs."""
    json.dumps(to_json(review), allow_nan=False)


def show_terminal(review: Review) -> None:
    """Show a review to people."""
    render_review(review, Console(file=io.StringIO(), width=120))


def show_nowhere(review: Review) -> None:
    """Only read: fitting the model takes most of the time."""


FORMS = (show_json, show_terminal, *[show_nowhere] * 8)


def base_logs(folder: Path) -> list[bytes]:
    """Return whole logs of all three kinds."""
    logged(folder / "base.jsonl", max_samples=4, adoption_pairs=3)
    return [(folder / "base.jsonl").read_bytes(), HOROVOD.encode(), BAGUA.encode()]


def flip(data: bytearray, rng: random.Random) -> None:
    """Change one byte."""
    data[rng.randrange(len(data))] = rng.randrange(256)


def cut(data: bytearray, rng: random.Random) -> None:
    """Take out a piece, as a torn write does."""
    begin = rng.randrange(len(data))
    del data[begin : begin + rng.randrange(1, 400)]


def repeat(data: bytearray, rng: random.Random) -> None:
    """Write a piece twice."""
    begin = rng.randrange(len(data))
    data[begin:begin] = data[begin : begin + rng.randrange(1, 400)]


def replace_number(data: bytearray, rng: random.Random) -> None:
    """Put something nasty where a number stands."""
    begin = rng.randrange(len(data))
    while begin < len(data) and data[begin] not in NUMBER:
        begin += 1
    end = begin
    while end < len(data) and data[end] in NUMBER:
        end += 1
    data[begin:end] = rng.choice(NASTY)


KINDS: tuple[Callable[[bytearray, random.Random], None], ...] = (flip, cut, repeat, replace_number, replace_number)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a log with one to four mutations."""
    mutant = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        if mutant:
            rng.choice(KINDS)(mutant, rng)
    return bytes(mutant)


def check_mutants(folder: Path, count: int, seed: int) -> None:
    """Review mutants in every form; each is read, or its bad lines have numbers within the file."""
    logs, rng = base_logs(folder), random.Random(seed)
    path = folder / "mutant.log"
    read = 0
    for index in range(count):
        data = mutated(logs[index % len(logs)], rng)
        path.write_bytes(data)
        try:
            review = review_log(path)
            FORMS[index // len(logs) % len(FORMS)](review)
        except Exception as error:
            (folder / "failing.log").write_bytes(data)
            raise AssertionError(f"mutant {index} of seed {seed}, kept as failing.log: {error!r}") from error
        read += bool(review.runs)
        lines = data.count(b"\n") + 1
        assert all(1 <= bad.number <= lines and bad.reason for bad in review.bad_lines)
        assert review.runs or review.bad_line_count or not data.strip()
    assert read > count // 2


def test_mutated_logs_are_read_or_their_bad_lines_named(tmp_path: Path) -> None:
    """Never a traceback."""
    check_mutants(tmp_path, MUTATIONS, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_ten_thousand_mutated_logs(tmp_path: Path) -> None:
    """The same, many times."""
    check_mutants(tmp_path, MANY_MUTATIONS, seed=2)
