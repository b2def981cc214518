# SPDX-License-Identifier: Apache-2.0
"""The contest of a study's configs: which are supported by paired tests, confirmed, or outvoted by another.

- A reporter has one vote on a config, whatever the number of its jobs: job ids are free to invent.
- A config that a paired test adopted is better than any untested one, whatever their windows show.
- Of two configs the one with more votes is the better one, whatever the size of a claim. A reporter that adopted only
  one of them votes for that; one that adopted both votes for the one of its own better bound.
- A reporter that adopted a rival has voted by that: its paired tests that kept the default do not count a second time,
  as opposition. They leave a config contested, a prior, and never put it out.
- On a tie the config that was recommended earlier stays, and all that tie are priors: none outvoted another. No config
  is confirmed where as many other reporters adopted another config.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

MIN_REPORTERS = 2
"""Reporters whose paired tests must have adopted a config before it is confirmed."""
MAX_CHOICES = 16
"""Configs of one reporter, the best first, that are compared by its own bounds."""
MAX_RIVALS = 256
"""Rivals with the most votes that may keep a config from being confirmed: bounds the pairs of a study."""


@dataclass(frozen=True)
class Contender:
    """A config with the reporters that say something of it.

    Attributes:
        name: Tells it from the study's others.
        is_over_default: Whether its speed-up is over the default.
        adopted: Lower bound of its speed-up, by reporter whose paired tests adopted it.
        kept: Reporters whose paired tests kept the default.
        faster: Lower bound of its speed-up, by reporter whose windows alone show that it is faster.
        slower: Number of reporters whose windows alone show that it is slower.
    """

    name: Hashable
    is_over_default: bool
    adopted: Mapping[str, float]
    kept: frozenset[str]
    faster: Mapping[str, float]
    slower: int

    @property
    def speaking(self) -> Mapping[str, float]:
        """The reporters that vote for it: those with windows only where no paired test was made."""
        return self.adopted if self.adopted or self.kept else self.faster


@dataclass(frozen=True)
class Place:
    """The place of a config among those of its study.

    Attributes:
        is_promising: Whether a search may begin with it: adopted by no fewer than were against it, or faster to more.
        is_supported: Whether enough reporters adopted it over the default, and more than were against it.
        is_confirmed: Whether it is supported and no other config has as many votes.
        beaten: Number of other configs that it beats.
    """

    is_promising: bool
    is_supported: bool
    is_confirmed: bool
    beaten: int


def places(contenders: Sequence[Contender]) -> dict[Hashable, Place]:
    """Return the place of each config of one study."""
    adopters = _adopters(contenders)
    against = {item.name: len(item.kept - adopters) for item in contenders}  # an adopter of a rival is not against it
    promising = {item.name for item in contenders if _is_promising(item, against[item.name])}
    groups: dict[tuple[bool, bool, bool], list[Contender]] = {}
    for item in contenders:
        groups.setdefault((item.name in promising, item.is_over_default, bool(item.adopted)), []).append(item)
    beaten, blocked = Counter[Hashable](), set[Hashable]()
    for group in groups.values():
        _contest(group, beaten, blocked)
    beaten.update(_untested_ones(contenders))
    return {
        item.name: Place(
            is_promising=item.name in promising,
            is_supported=(supported := _is_supported(item, against[item.name])),
            is_confirmed=supported and len(item.adopted) > len(item.kept) and item.name not in blocked,
            beaten=beaten[item.name],
        )
        for item in contenders
    }


def _adopters(contenders: Iterable[Contender]) -> frozenset[str]:
    """Return the reporters that adopted a config."""
    return frozenset(reporter for item in contenders for reporter in item.adopted)


def _is_promising(item: Contender, against: int) -> bool:
    if item.adopted:
        return len(item.adopted) >= against
    return not item.kept and len(item.faster) > item.slower


def _is_supported(item: Contender, against: int) -> bool:
    return item.is_over_default and len(item.adopted) >= MIN_REPORTERS and len(item.adopted) > against


def _contest(group: Sequence[Contender], beaten: Counter[Hashable], blocked: set[Hashable]) -> None:
    """Compare each two configs by their votes.

    Args:
        group: Configs of one study that compete; those of another group come before or after them anyway.
        beaten: Gets how many others each config beats.
        blocked: Gets the configs that tie with another, or that as many other reporters answered by another.
    """
    votes = {item.name: len(item.speaking) for item in group}
    counts = sorted(votes.values())
    alike = Counter(counts)
    ties: Counter[Hashable] = Counter({name: alike[own] - 1 for name, own in votes.items()})
    beaten.update({name: bisect_left(counts, own) for name, own in votes.items()})
    for (name, other), margin in _own_choices(group).items():
        by_number = votes[name] - votes[other]
        beaten[name] += (by_number + margin > 0) - (by_number > 0)
        ties[name] += (by_number + margin == 0) - (by_number == 0)
    blocked |= {name for name, count in ties.items() if count} | _answered(group)


def _answered(group: Sequence[Contender]) -> set[Hashable]:
    """Return the configs to which as many other reporters prefer a rival."""
    strongest = sorted((item for item in group if item.adopted), key=lambda item: -len(item.adopted))[:MAX_RIVALS]
    return {item.name for item in strongest if any(_answers(rival, item) for rival in strongest)}


def _answers(rival: Contender, item: Contender) -> bool:
    """Tell whether as many reporters adopted a rival, and not this config, as adopted this one."""
    return len(rival.adopted) >= len(item.adopted) and len(rival.adopted.keys() - item.adopted.keys()) >= len(
        item.adopted
    )


def _untested_ones(contenders: Sequence[Contender]) -> Counter[Hashable]:
    """Return by adopted config how many untested configs of its study it beats: windows never outvote a paired test."""
    untested = Counter(item.is_over_default for item in contenders if item.faster and not item.adopted)
    return Counter({item.name: untested[item.is_over_default] for item in contenders if item.adopted})


def _own_choices(group: Sequence[Contender]) -> Counter[tuple[Hashable, Hashable]]:
    """Return by two configs how many reporters of both hold the first for the better one, less those of the second."""
    by_reporter: dict[str, list[tuple[float, str, Hashable]]] = {}
    for item in group:
        for reporter, low in item.speaking.items():
            by_reporter.setdefault(reporter, []).append((low, str(item.name), item.name))
    margins: Counter[tuple[Hashable, Hashable]] = Counter()
    for own in by_reporter.values():
        best = sorted(own, key=lambda row: row[:2], reverse=True)[:MAX_CHOICES]
        for (_, _, better), (_, _, worse) in combinations(best, 2):
            margins[better, worse] += 1
            margins[worse, better] -= 1
    return margins
