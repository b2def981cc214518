# SPDX-License-Identifier: Apache-2.0
"""Numbers of things, with the noun in the right number, and ages in days."""

_DAY_S = 86_400.0
_HISSES = ("s", "x", "z", "ch", "sh")
_VOWELS = "aeiou"


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 job", "1,200 results", "2 studies", "3 launches".

    Args:
        number: Number of things.
        noun: The word for one of them; its end makes the plural, so that others may stand before it: "paired test".
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def age_in_days(age_s: float) -> str:
    """Return how old something is: "today", "1 day old", "12 days old"."""
    days = int(age_s // _DAY_S)
    return "today" if days < 1 else f"{counted(days, 'day')} old"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_HISSES) else f"{noun}s"
