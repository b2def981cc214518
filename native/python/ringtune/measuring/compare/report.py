# SPDX-License-Identifier: Apache-2.0
"""A comparison for people and for machines: the figures, the verdict, and how each arm was made."""

from typing import Any

from ringtune.system.counts import counted

from .comparison import FinishedComparison
from .launching import Run
from .script_facts import FOR_DDP, FOR_GROUPS, FOR_HOOK, FOR_OPTIMIZER

JSON_SCHEMA = 1
HOW = {
    FOR_DDP: (
        "The script is written for DDP and runs as it is there; in the other arm ringtune's engine reduces DDP's "
        "buckets (hvd.ddp_hook)."
    ),
    FOR_HOOK: (
        "The script is written for ringtune's hook of DDP and runs as it is there; in the other arm DDP reduces its "
        "buckets itself."
    ),
    FOR_OPTIMIZER: (
        "The script is written for ringtune's DistributedOptimizer and runs as it is there; in the other arm DDP's own "
        "reducer averages the same gradients in the backward pass, and hvd's other calls go through ringtune."
    ),
    FOR_GROUPS: (
        "The script runs as it is in both arms: with torch's process groups on Gloo, and with ringtune's backend in "
        "Gloo's place (ringtune run --torch-backend)."
    ),
}
"""Construction of each arm, by the library that the script was written for."""


def text_report(comparison: FinishedComparison) -> str:
    """Return the lines that a person reads."""
    request, verdict, facts = comparison.request, comparison.verdict, comparison.facts
    first = comparison.pairs[0][0]
    hosts = f", hosts {request.hosts}" if request.hosts else ""
    steps = sorted({run.steps for pair in comparison.pairs for run in pair})
    steps_text = str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    runs = f"{counted(len(comparison.pairs), 'pair')} of runs of {steps_text} steps"
    backend = f" ({facts['backend']})" if facts.get("backend") else ""
    lines = [
        f"{request.title}: {counted(request.ranks, 'rank')}{hosts}, {runs}",
        f"  {verdict.baseline:<12}{verdict.ddp_steps_per_s:.4g} steps/s{backend}",
        f"  ringtune    {verdict.ringtune_steps_per_s:.4g} steps/s",
        f"  ringtune / {verdict.baseline}  {verdict.ratio_text}",
        verdict.sentence,
        "",
        how_arms_were_made(comparison),
        f"Each run is a fresh job; {request.warmup_steps} warm-up steps are left out, and runs alternate in order.",
    ]
    if first.did_script_end:
        lines.append("The script came to its own end in every run; more steps would make the interval narrower.")
    if comparison.not_in_arms:
        lines.append(
            f"{', '.join(comparison.not_in_arms)} was left out of both arms: a comparison measures fixed settings."
        )
    return "\n".join(lines)


def how_arms_were_made(comparison: FinishedComparison) -> str:
    """Return for whom the script was written, and how the other arm was made."""
    if comparison.request.gradients is not None:
        return (
            "Gradients alone, made in the file's order: under DDP by DistributedDataParallel, under ringtune by "
            "DistributedOptimizer. There is no computing to hide communication behind, so a whole step gains less."
        )
    return HOW[str(comparison.facts["written_for"])]


def json_report(comparison: FinishedComparison) -> dict[str, Any]:
    """Return everything for machines; rates are steps per second."""
    request, verdict = comparison.request, comparison.verdict
    return {
        "schema": JSON_SCHEMA,
        "title": request.title,
        "ranks": request.ranks,
        "hosts": request.hosts,
        "warmup_steps": request.warmup_steps,
        "script": dict(comparison.facts),
        "arms": how_arms_were_made(comparison),
        "not_in_arms": list(comparison.not_in_arms),
        "ddp_steps_per_s": verdict.ddp_steps_per_s,
        "ringtune_steps_per_s": verdict.ringtune_steps_per_s,
        "ratio": verdict.ratio,
        "ci_low": verdict.low,
        "ci_high": verdict.high,
        "ci_level": verdict.level,
        "winner": verdict.winner,
        "is_steady": verdict.is_steady,
        "spread": verdict.spread,
        "ratio_spread": verdict.ratio_spread,
        "pairs": [{"ddp": _run(ddp), "ringtune": _run(ringtune)} for ddp, ringtune in comparison.pairs],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "steps": run.steps,
        "seconds": run.seconds,
        "steps_per_s": run.steps_per_s,
        "did_script_end": run.did_script_end,
    }
