# SPDX-License-Identifier: Apache-2.0
"""Slips in the names of variables: which known name differs by a letter or two. Pure."""

from collections.abc import Iterable

SUBSTITUTION = 1.25  # weight of a wrong letter; a missing, doubled or exchanged one weighs 1
SHORT_NAME = 12  # letters up to which two wrong ones make another word: AUTOTYPE and AUTOTIME are not AUTOTUNE
SHORT_LIMIT, LIMIT = 2.25, 2.5  # sums of weights: two letters, not both of them wrong in a short name; two letters


def nearest_slip(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name is probably a slip of, with another case or a letter or two; empty for none."""
    spelt = name.upper().replace("-", "_")
    distances = {other: _distance(spelt, other) for other in known if _may_be_near(spelt, other)}
    near = {other: d for other, d in distances.items() if d <= (SHORT_LIMIT if len(other) <= SHORT_NAME else LIMIT)}
    return min(near, key=lambda other: near[other], default="")


def _may_be_near(one: str, other: str) -> bool:
    """Return whether two texts have nearly the same length and letters; a quick look before the long one."""
    return abs(len(one) - len(other)) <= LIMIT and len({*one} ^ {*other}) <= 2 * LIMIT


def _distance(one: str, other: str) -> float:
    """Return the weight of the edits from one text to another: optimal string alignment, row by row."""
    before: list[float] = []
    row = [float(column) for column in range(len(other) + 1)]
    for i, letter in enumerate(one, start=1):
        last, before, row = before, row, [float(i)]
        for j, expected in enumerate(other, start=1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + SUBSTITUTION * (letter != expected))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == expected:
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return row[-1]
