# SPDX-License-Identifier: Apache-2.0
"""When a search ends before its budget: the designer itself expects nothing more that would be worth a sample.

The suggestion is the config that promises most. Once even it is unlikely to become a better challenger, three times in
a row, further samples cost more than they can bring.
"""

from statistics import NormalDist

from .designer_watchdog import Advice, Outlook

MIN_EXPECTED_GAIN = 0.01
"""A challenger expected to gain less over the baseline is not worth the steps of a test."""
MIN_FURTHER_GAIN = 0.005
"""Of a challenger that is worth a test already, so much more is worth a sample: its test will not cost more for it."""
LEAST_CHANCE = 0.05
"""Of such a gain: a suggestion with less of it is hopeless."""
HOPELESS_IN_A_ROW = 3
"""With two, or with a chance of 0.1, single ones of 48 simulated searches lost 15 % that they would have found."""
LEAST_CONFIGS = 10
"""So many measured configs, the baseline included, before a search may end: of eight a model of one knob still
believed in nothing where an optimum was a tenth of the axis wide."""


class Patience:
    """Counts hopeless suggestions."""

    def __init__(self) -> None:
        """Begin hopeful."""
        self._hopeless = 0

    def is_over(self, advice: Advice, measured: int) -> bool:
        """Take in what a designer says, with so many configs measured; tell whether the search should end."""
        worthwhile = max(MIN_EXPECTED_GAIN - advice.expected_gain, MIN_FURTHER_GAIN)
        is_hopeless = advice.outlook is not None and chance_of(worthwhile, advice.outlook) < LEAST_CHANCE
        self._hopeless = self._hopeless + 1 if is_hopeless else 0
        return self._hopeless >= HOPELESS_IN_A_ROW and measured >= LEAST_CONFIGS


def chance_of(gain: float, outlook: Outlook) -> float:
    """Return the chance that a suggestion beats the best measured config by so much, as ln(step time)."""
    return 1.0 - NormalDist(outlook.gain, outlook.std).cdf(gain)
