# SPDX-License-Identifier: Apache-2.0
"""Makes metrics of figures; every series carries the labels that say whose it is."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

Labels = Mapping[str, str]
Series = Iterable[tuple[Labels, float]]


class Families:
    """Makes metrics for one rank."""

    def __init__(self, identity: Labels) -> None:
        """Put `identity` on every series."""
        self._identity = dict(identity)

    def gauge(self, name: str, text: str, value: float | None, labels: Labels | None = None) -> Metric:
        """Return a gauge of one series, or of none where there is no value."""
        return self.gauges(name, text, [] if value is None else [(labels or {}, value)])

    def gauges(self, name: str, text: str, series: Series) -> Metric:
        """Return a gauge with a series for each of `series`."""
        return self._family("gauge", name, text, name, series)

    def counter(self, name: str, text: str, value: float) -> Metric:
        """Return a counter of one series; `name` ends in `_total`."""
        return self.counters(name, text, [({}, value)])

    def counters(self, name: str, text: str, series: Series) -> Metric:
        """Return a counter with a series for each of `series`; `name` ends in `_total`."""
        return self._family("counter", name.removesuffix("_total"), text, name, series)

    def _family(self, kind: str, name: str, text: str, series_name: str, series: Series) -> Metric:
        metric = Metric(name, text, kind)
        for labels, value in series:
            metric.add_sample(series_name, {**self._identity, **labels}, value)
        return metric
