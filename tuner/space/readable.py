# SPDX-License-Identifier: Apache-2.0
"""Human-readable text for the values of parameters."""

from .config import Config, Value
from .parameters import KIB, MIB

LEAST_COST_S = 0.05
"""Smallest cost that is shown, seconds; smaller ones are "no time"."""
LEAST_SHOWN = 0.0005
"""Smallest fraction that a percentage with one decimal does not round to zero."""


def readable_size(size_bytes: int) -> str:
    """Return a size in KiB or MiB; zero means off: "0 (off)", "16 KiB", "1.5 MiB"."""
    if size_bytes == 0:
        return "0 (off)"
    return f"{size_bytes / MIB:.4g} MiB" if size_bytes >= MIB else f"{size_bytes / KIB:.4g} KiB"


def readable_cost(cost_s: float) -> str:
    """Return the extra seconds of the tried configs over the baseline: "1.5 s", "no time".

    A negative cost is "no time": drift of the machine is as likely a cause as faster configs.
    """
    return f"{cost_s:.1f} s" if cost_s >= LEAST_COST_S else "no time"


def readable_value(name: str, value: Value | None) -> str:
    """Return a parameter's value with the unit of its name, or "-" without a value."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if name.endswith("_bytes") and isinstance(value, int):
        return readable_size(value)
    if name.endswith("_ms") and not isinstance(value, str):
        return f"{value:.3g} ms"
    return f"{value:g}" if isinstance(value, float) else str(value)


def readable_changes(baseline: Config, config: Config) -> str:
    """Return the changes from the baseline as `name value (was value)`, comma-separated."""
    return ", ".join(
        f"{name} {readable_value(name, value)} (was {readable_value(name, baseline[name])})"
        for name, value in config.items()
        if baseline[name] != value
    )


def readable_percent(fraction: float) -> str:
    """Return a signed fraction in percent, such as "+2.5 %"; a fraction near zero keeps its sign."""
    return f"{100 * fraction:+.1f} %" if abs(fraction) >= LEAST_SHOWN else f"{100 * fraction:+.1g} %"
