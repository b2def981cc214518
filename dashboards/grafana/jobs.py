# SPDX-License-Identifier: Apache-2.0
"""The dashboard for users with jobs: do they train, where do they wait, the tuner's finding, and its price."""

from .dashboard import Dashboard, DashboardVariable, PanelRow
from .engine_rows import config_row, engine_row, fusion_row
from .panels import AMBER, RED, Query, number, over_time, words
from .selectors import HERE, JOB
from .tuner_rows import price_row, progress_row, tuner_row

WAITING = 'lap=~"negotiation|await_.*"'
STALL = "10m"
"""Without a step for so long a rank counts as stalled; an evaluation or a checkpoint may take minutes."""


def jobs_dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid="ringtune-jobs",
        title="Ringtune jobs",
        description="Jobs on the engine: steps, stragglers, fusion, config, the tuner and its price.",
        variables=[
            DashboardVariable("model", "Model", "ringtune_job_info", "model"),
            DashboardVariable("training_job", "Job", 'ringtune_job_info{model=~"$model"}', "training_job"),
            DashboardVariable("host", "Host", f"ringtune_job_info{{{JOB}}}", "host"),
            DashboardVariable("rank", "Rank", f'ringtune_job_info{{{JOB},host=~"$host"}}', "rank"),
        ],
        rows=[
            _jobs(),
            _steps(),
            engine_row(),
            fusion_row(),
            config_row(),
            tuner_row(),
            progress_row(),
            price_row(),
        ],
    )


def _jobs() -> PanelRow:
    steps = f"ringtune_engine_steps_total{{{HERE}}}"
    return PanelRow(
        "Jobs",
        [
            number(
                "Jobs",
                "Jobs of which at least one rank was scraped just now.",
                Query(f"count(group by (training_job) (ringtune_job_info{{{JOB}}}))"),
            ),
            number(
                "Ranks missing",
                "Ranks that their job has and that are not scraped: the port is taken (the job's log says so), the "
                "address is not reachable, or the targets are not listed.",
                Query(
                    f"sum(max by (training_job) (ringtune_job_world_size{{{JOB}}})"
                    f" - count by (training_job) (ringtune_job_info{{{JOB}}}))"
                ),
                limits={1: AMBER},
            ),
            number(
                "Ranks stalled",
                f"Ranks that marked steps, but none for {STALL}. An evaluation on rank 0 looks the same; otherwise "
                "look for the job's warning, which names who is missing.",
                Query(f"count((increase({steps}[{STALL}]) == 0) and ({steps} > 0)) or vector(0)"),
                limits={1: RED},
            ),
            number(
                "Steps per second",
                "Of the slowest rank shown, in the mean of the last minute or so.",
                Query(f"min(rate({steps}[$__rate_interval]))"),
                unit="ops",
            ),
            number(
                "Reduced",
                "Bytes of gradients that one rank hands to the engine per second, in the mean over ranks.",
                Query(f"avg(rate(ringtune_engine_reduced_bytes_total{{{HERE}}}[$__rate_interval]))"),
                unit="Bps",
            ),
            number(
                "Speed-up",
                "What the newest adoption test found, in the mean over jobs; 0.1 is ten per cent faster than the "
                "config that the job would have run without tuning.",
                Query(f"avg(ringtune_tuner_speedup_ratio{{{JOB}}})"),
                unit="percentunit",
            ),
            words(
                "Which jobs",
                "Each job by the name that its ranks share, and what it runs on.",
                Query(
                    f"group by (training_job, model, version, transport, autotune) (ringtune_job_info{{{JOB}}})",
                    is_now=True,
                ),
            ),
        ],
    )


def _steps() -> PanelRow:
    rate = f"rate(ringtune_engine_steps_total{{{HERE}}}[$__rate_interval])"
    lap_rate = "rate(ringtune_engine_seconds_total{{{}}}[$__rate_interval])"
    everything = lap_rate.format(HERE)
    waiting = lap_rate.format(f"{HERE},{WAITING}")
    return PanelRow(
        "Steps and stragglers",
        [
            over_time(
                "Step time",
                "Seconds per optimizer step, by rank: computing and reducing together.",
                Query(f"1 / ({rate} > 0)", "{{training_job}} rank {{rank}}"),
                unit="s",
            ),
            over_time(
                "Waiting for other ranks",
                "Share of its time that a rank waits for others. The rank that waits least is the one that the others "
                "wait for: if one is far below the rest, look at its host.",
                Query(
                    f"sum by (training_job, rank) ({waiting}) / sum by (training_job, rank) ({everything})",
                    "{{training_job}} rank {{rank}}",
                ),
                unit="percentunit",
            ),
            over_time(
                "Where the time goes",
                "Mean over ranks. `elsewhere` is the job's own computing; `negotiation` and `await_*` are waiting; "
                "`copy_*` and `reduce` are the reduction itself.",
                Query(f"sum by (lap) ({everything}) / scalar(sum({everything}))", "{{lap}}"),
                unit="percentunit",
                is_stacked=True,
            ),
        ],
    )
