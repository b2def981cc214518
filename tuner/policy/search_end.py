# SPDX-License-Identifier: Apache-2.0
"""Reasons why a search ended, as sentences for people; each is written where the search, or the run, ends."""

import math

from ringtune.tuner.sample import VoidReason

from .state import RunState


def why_ended(state: RunState, worthless: int) -> str:
    """Return the sentence on a search that ends now.

    Args:
        state: State of the run; `spent` names the limit that was reached.
        worthless: Number of newest suggestions in a row whose value of information is below the policy's threshold.
    """
    if state.spent == "samples":
        limit, name = state.settings.max_samples, state.settings.limit_name("samples")
        used = "the one sample" if limit == 1 else f"all {limit} samples"
        reason = f"{used} of {name}={limit} {'was' if limit == 1 else 'were'} used"
    elif worthless >= state.policy.patience:
        reason = _nothing_to_gain(state)
    else:
        reason = _budget_used(state, state.spent or state.nearest_limit)
    finding = all_failed(state)
    return _because(f"{reason}; {finding}" if finding else reason)


def _budget_used(state: RunState, unit: str) -> str:
    """Return the reason of a search without room for another sample; the unit is `steps` or `seconds`."""
    settings = state.settings
    used = state.steps_used if unit == "steps" else state.seconds_used
    limit = settings.max_steps if unit == "steps" else settings.max_seconds
    text = "" if limit is None else f"{used:.3g} of {settings.limit_name(unit)}={limit:g} were used, and "
    if state.is_exploration_overdrawn:
        share = f"{100 * state.policy.exploration_share:g} %"
        return f"{text}the next config might cost more than {share} of the time, the limit of the cost of tuning"
    return f"{text}no further {'launch' if settings.fixed_windows else 'window'} fits beside the adoption test"


def _nothing_to_gain(state: RunState) -> str:
    """Return the reason of a search that ends before its budget."""
    least = f"{100 * math.expm1(state.least_value):.2g} %"
    if state.is_every_config_tried:
        tried = f"all {state.config_count:.0f} configs were tried"
        return f"{tried}, and one more sample of any of them is expected to gain less than {least}"
    return f"each of the last {state.policy.patience} suggestions was expected to gain less than {least}"


def all_failed(state: RunState) -> str | None:
    """Return the beginning of a verdict if every tried config failed, or None."""
    failed = sum(
        any(sample.reason is VoidReason.LAUNCH_FAILED for sample in trial.samples)
        for trial in state.book.trials()
        if trial.config != state.baseline and not trial.is_conclusive
    )
    if len(state.book.measured()) > 1 or not failed:
        return None
    return "the only tried config failed" if failed == 1 else f"all {failed} tried configs failed"


def too_noisy(state: RunState) -> str:
    """Return the sentence on a search after which the noise hides what might be gained."""
    return _with(state.ended, "the noise hides the gains that are left")


def could_not_go_on(state: RunState, reason: str) -> str:
    """Return the sentence on a run that could not go on; the reason is a clause without a full stop."""
    return _with(state.ended, f"then the run ended because {reason}") if state.ended else _because(reason)


def interrupted(state: RunState, reason: str) -> str:
    """Return the sentence for a run that ended from outside.

    Args:
        state: State of the run.
        reason: The reason, a clause without a full stop; empty if the job ended, or the user wanted the end.
    """
    who = reason or ("it was interrupted" if state.settings.fixed_windows else "the job ended")
    place = f"the {state.journal.phase.value} phase"
    if not state.ended:
        return f"The search ended in {place} because {who}."
    return _with(state.ended, f"then {place} ended because {who}")


def _with(ended: str, clause: str) -> str:
    return f"{ended.removesuffix('.')}; {clause}."


def _because(reason: str) -> str:
    return f"The search ended because {reason}."
