# SPDX-License-Identifier: Apache-2.0
"""The engine against DDP on this machine, as earlier runs of `ringtune compare` found; or how to find out."""

import time
from collections.abc import Mapping

from ringtune.measuring.compare.keeping import ComparisonStore, KeptComparison
from ringtune.system.counts import age_in_days, counted

from .finding import DoctorSection

SHOWN = 3
"""The newest of this machine; older ones stay in the file."""
ADVICE = "`ringtune compare -np N SCRIPT` runs your script under both, `--gradients FILE` gradients alone"


def examine_comparisons(environ: Mapping[str, str], hardware: str) -> DoctorSection:
    """Return the comparisons that this machine's cache holds.

    Args:
        environ: For `XDG_CACHE_HOME`.
        hardware: Fingerprint of this machine.
    """
    entries = [entry for entry in ComparisonStore(environ).entries() if entry.hardware == hardware]
    if not entries:
        return DoctorSection("engine against DDP", (("not compared yet", ADVICE),))
    return DoctorSection("engine against DDP", [(entry.title, _text(entry)) for entry in entries[:SHOWN]])


def _text(entry: KeptComparison) -> str:
    hosts = f" on {entry.hosts}" if entry.hosts else ""
    ratio = f"ringtune / {entry.baseline} {entry.ratio:.2f} (90% interval {entry.low:.2f} to {entry.high:.2f})"
    rates = f"{entry.ringtune_steps_per_s:.4g} and {entry.ddp_steps_per_s:.4g} steps/s"
    age = age_in_days(time.time() - entry.unix_time_s)
    size = f"{counted(entry.ranks, 'rank')}{hosts}, {counted(entry.pairs, 'pair')}"
    return f"{ratio}, {rates}, {size}, {age}, ringtune {entry.version}"
