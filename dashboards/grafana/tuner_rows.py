# SPDX-License-Identifier: Apache-2.0
"""Rows about the tuner: its phase, its finding, and the cost of both."""

from .dashboard import PanelRow
from .panels import Query, lanes, over_time, words
from .selectors import IDENTITY, JOB


def tuner_row() -> PanelRow:
    """Return the panels on the tuner's phase and finding."""
    return PanelRow(
        "Tuner",
        [
            lanes(
                "Phase",
                "Where each tuning run is. A job is tuned once warmup, baseline, search and adoption are over; it is "
                "then only watched, until step times drift.",
                Query(f"max by (training_job, phase) (ringtune_tuner_phase{{{JOB}}})", "{{training_job}} {{phase}}"),
            ),
            over_time(
                "Score",
                "Bytes of gradients per second of step time: the newest window, the baseline, and the best trial. The "
                "best is the luckiest as well: what counts is the speed-up.",
                Query(f"ringtune_tuner_score_bytes_per_second{{{JOB}}}", "newest, {{training_job}}"),
                Query(f"ringtune_tuner_baseline_score_bytes_per_second{{{JOB}}}", "baseline, {{training_job}}"),
                Query(f"ringtune_tuner_best_score_bytes_per_second{{{JOB}}}", "best, {{training_job}}"),
                unit="Bps",
                width=12,
            ),
            over_time(
                "Speed-up with its interval",
                "The newest adoption test: estimate and 90 % interval. Where the lower end is above zero, and only "
                "there, the config is adopted; elsewhere the estimate is no gain.",
                Query(f"max(ringtune_tuner_speedup_high_ratio{{{JOB}}})", "upper end"),
                Query(f"max(ringtune_tuner_speedup_ratio{{{JOB}}})", "estimate"),
                Query(f"max(ringtune_tuner_speedup_low_ratio{{{JOB}}})", "lower end"),
                unit="percentunit",
                overrides={"upper end": {"custom.fillBelowTo": "lower end", "custom.lineWidth": 0}},
                is_from_zero=False,
                width=12,
            ),
            words(
                "Verdict",
                "What the newest run that is over decided, in words.",
                Query(f"ringtune_tuner_verdict_info{{{JOB}}}", is_now=True),
                hidden=IDENTITY,
            ),
        ],
    )


def progress_row() -> PanelRow:
    """Return how a run gets on."""
    return PanelRow(
        "The tuner's run",
        [
            over_time(
                "Step time as the tuner sees it",
                "Median of the newest valid window; pauses are left out.",
                Query(f"ringtune_tuner_step_seconds{{{JOB}}}", "{{training_job}}"),
                unit="s",
            ),
            over_time(
                "Samples of the phase",
                "Done, and how many the phase takes at most; a search ends earlier where nothing is expected any more.",
                Query(f"ringtune_tuner_phase_samples{{{JOB}}}", "done, {{training_job}}"),
                Query(f"ringtune_tuner_phase_samples_expected{{{JOB}}}", "at most, {{training_job}}"),
            ),
            over_time(
                "Time left",
                "Estimate for the tuning run; nothing is shown while there is none.",
                Query(f"ringtune_tuner_remaining_seconds{{{JOB}}}", "{{training_job}}"),
                unit="s",
            ),
            over_time(
                "Windows by phase",
                "Windows measured so far; while a decision is watched, one every half minute.",
                Query(f"sum by (phase) (ringtune_tuner_windows_total{{{JOB}}})", "{{phase}}"),
                is_stacked=True,
                width=12,
            ),
            over_time(
                "Void windows by reason",
                "Windows that gave no sample. Many pauses: evaluations or checkpoints are frequent, set "
                "AUTOTUNE_STEPS_PER_SAMPLE lower. tensor_set_changed: the steps are not alike.",
                Query(f"sum by (reason) (ringtune_tuner_void_windows_total{{{JOB}}})", "{{reason}}"),
                is_stacked=True,
                width=12,
            ),
        ],
    )


def price_row() -> PanelRow:
    """Return the panels on the cost of tuning."""
    over = f"max by (training_job) (ringtune_tuner_exploration_seconds_total{{{JOB}}})"
    live = f"max by (training_job) (ringtune_tuner_run_exploration_seconds{{{JOB}}})"
    began = f"max by (training_job) (ringtune_tuner_start_timestamp_seconds{{{JOB}}})"
    design_s = f"increase(ringtune_tuner_design_seconds_total{{{JOB}}}[$__rate_interval])"
    suggestions = f"increase(ringtune_tuner_suggestions_total{{{JOB}}}[$__rate_interval])"
    return PanelRow(
        "What tuning costs",
        [
            over_time(
                "Exploration against its budget",
                "What trying configs has cost, as a share of the time since tuning began, and its limit. In the first "
                "minute it may be above the limit; later nothing is tried until it is below.",
                Query(f"({over} + clamp_min({live}, 0)) / (time() - {began})", "{{training_job}}"),
                Query(f"max(ringtune_tuner_exploration_limit_ratio{{{JOB}}})", "limit"),
                unit="percentunit",
            ),
            over_time(
                "Cost",
                "Seconds lost by trying: of the runs that are over, and of the one that goes on. Below zero what it "
                "tried was faster than what was in force; that pays for no other run.",
                Query(over, "over, {{training_job}}"),
                Query(live, "going on, {{training_job}}"),
                unit="s",
                is_from_zero=False,
            ),
            over_time(
                "Pay-back",
                "Steps after which the newest adopted config has won back what its run cost.",
                Query(f"ringtune_tuner_payback_steps{{{JOB}}}", "{{training_job}}"),
            ),
            over_time(
                "Runs by decision",
                "Tuning runs that are over: searches and checks. `unfinished`: the job ended first.",
                Query(f"sum by (decision) (ringtune_tuner_runs_total{{{JOB}}})", "{{decision}}"),
                Query(f"sum(ringtune_tuner_adopted{{{JOB}}})", "jobs with an adopted config"),
            ),
            over_time(
                "Time per suggestion",
                "What a designer takes to find a config, in a thread beside training.",
                Query(f"sum({design_s}) / (sum({suggestions}) > 0)", "mean"),
                unit="s",
            ),
            over_time(
                "Warnings",
                "How often the tuner warned; the job's log says of what.",
                Query(f"sum by (training_job) (ringtune_tuner_warnings_total{{{JOB}}})", "{{training_job}}"),
            ),
        ],
    )
