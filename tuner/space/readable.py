# SPDX-License-Identifier: Apache-2.0
"""Values of parameters as people read them."""

from .config import Config, Value
from .parameters import KIB, MIB

LEAST_COST_S = 0.05
"""Smaller costs are shown as none."""
LEAST_SHOWN = 0.0005
"""A fraction that one digit after the point of a percentage would round to zero."""


def readable_size(size_bytes: int) -> str:
    """Return a size in the unit that suits it, zero by its meaning: "0 (off)", "16 KiB", "1.5 MiB"."""
    if size_bytes == 0:
        return "0 (off)"
    return f"{size_bytes / MIB:.4g} MiB" if size_bytes >= MIB else f"{size_bytes / KIB:.4g} KiB"


def readable_cost(cost_s: float) -> str:
    """Return the seconds that tried configs took beyond the baseline's: "1.5 s", "no time".

    Less than none is told as none: as likely as by a faster config it came about by a drift of the machine.
    """
    return f"{cost_s:.1f} s" if cost_s >= LEAST_COST_S else "no time"


def readable_value(name: str, value: Value | None) -> str:
    """Return a parameter's value with the unit that its name promises, "-" where there is none."""
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
    """Return the parameters that differ from the baseline, as `name value (was value)`."""
    return ", ".join(
        f"{name} {readable_value(name, value)} (was {readable_value(name, baseline[name])})"
        for name, value in config.items()
        if baseline[name] != value
    )


def readable_percent(fraction: float) -> str:
    """Return a signed fraction in percent, such as "+2.5 %"; one that is near zero keeps its sign."""
    return f"{100 * fraction:+.1f} %" if abs(fraction) >= LEAST_SHOWN else f"{100 * fraction:+.1g} %"
