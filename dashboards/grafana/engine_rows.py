# SPDX-License-Identifier: Apache-2.0
"""Rows about the engine: its traffic, how well it fuses, and the config in force."""

from .dashboard import PanelRow
from .panels import Query, over_time, words
from .selectors import FIRST_RANK, HERE, IDENTITY, JOB


def engine_row() -> PanelRow:
    """Return the panels on the engine's traffic."""
    return PanelRow(
        "Engine",
        [
            over_time(
                "Reduced bytes",
                "Bytes of tensors that each rank hands to the engine per second.",
                Query(_rate("reduced_bytes_total"), "{{training_job}} rank {{rank}}"),
                width=6,
                unit="Bps",
            ),
            over_time(
                "Rounds and operations",
                "Rounds in which ranks agree, and operations carried out, per second of one rank. Many rounds with few "
                "operations: gradients come one by one.",
                Query(f"avg by (training_job) ({_rate('cycles_total')})", "rounds, {{training_job}}"),
                Query(f"avg by (training_job) ({_rate('responses_total')})", "operations, {{training_job}}"),
                width=6,
                unit="ops",
            ),
            over_time(
                "Allreduces by algorithm",
                "What `auto` means is measured at a job's start, by size; see `ringtune doctor`.",
                Query(f"avg by (algorithm) ({_rate('allreduces_total')})", "{{algorithm}}"),
                width=6,
                unit="ops",
                is_stacked=True,
            ),
            over_time(
                "Allgathers",
                "Per second of one rank. hierarchical_allgather is tuned only where there are some.",
                Query(f"avg by (training_job) ({_rate('allgathers_total')})", "{{training_job}}"),
                width=6,
                unit="ops",
            ),
        ],
    )


def fusion_row() -> PanelRow:
    """Return how well tensors are joined and requested."""
    cached = f'rate(ringtune_engine_requests_total{{{HERE},kind="cached"}}[$__rate_interval])'
    return PanelRow(
        "Fusion and cache",
        [
            over_time(
                "Tensors per operation",
                "How many tensors are reduced together. 1 means that fusion does nothing: fusion_bytes is 0 or below "
                "the tensors, or cycle_ms is too short for them to meet.",
                Query(
                    f"sum by (training_job) ({_rate('tensors_total')})"
                    f" / (sum by (training_job) ({_rate('responses_total')}) > 0)",
                    "{{training_job}}",
                ),
                width=6,
            ),
            over_time(
                "Bytes per operation",
                "Small operations pay latency, large ones bandwidth; fusion makes small ones rare.",
                Query(
                    f"sum by (training_job) ({_rate('reduced_bytes_total')})"
                    f" / (sum by (training_job) ({_rate('responses_total')}) > 0)",
                    "{{training_job}}",
                ),
                width=6,
                unit="bytes",
            ),
            over_time(
                "Chunks per operation",
                "In how many pieces an operation moves; more of them overlap better and synchronize more often.",
                Query(
                    f"sum by (training_job) ({_rate('chunks_total')})"
                    f" / (sum by (training_job) ({_rate('responses_total')}) > 0)",
                    "{{training_job}}",
                ),
                width=6,
            ),
            over_time(
                "Requests by number",
                "Share of tensors that are requested by their number in the response cache. Below 100 % after the "
                "first steps: names or shapes change from step to step, or the cache is off.",
                Query(
                    f"sum by (training_job) ({cached}) / (sum by (training_job) ({_rate('requests_total')}) > 0)",
                    "{{training_job}}",
                ),
                width=6,
                unit="percentunit",
            ),
        ],
    )


def config_row() -> PanelRow:
    """Return the config in force."""
    switches = f"increase(ringtune_engine_config_switches_total{{{JOB}}}[$__rate_interval])"
    return PanelRow(
        "Config in force",
        [
            words(
                "Config in force",
                "The knobs of each job, now. All ranks of a job have the same at the same cycle.",
                Query(f"ringtune_config_info{{{FIRST_RANK}}}", is_now=True),
                hidden=IDENTITY,
            ),
            over_time(
                "fusion_bytes",
                "How many bytes of tensors are reduced together; 0: fusion is off. It moves while the tuner searches.",
                Query(f"ringtune_config_fusion_bytes{{{FIRST_RANK}}}", "{{training_job}}"),
                width=6,
                unit="bytes",
            ),
            over_time(
                "cycle_ms",
                "The longest time that a ready tensor waits for others.",
                Query(f"ringtune_config_cycle_seconds{{{FIRST_RANK}}}", "{{training_job}}"),
                width=6,
                unit="s",
            ),
            over_time(
                "chunk_bytes",
                "What is moved at once; 0: as the algorithm table says.",
                Query(f"ringtune_config_chunk_bytes{{{FIRST_RANK}}}", "{{training_job}}"),
                width=6,
                unit="bytes",
            ),
            over_time(
                "Switches",
                "The number of the config in force, and switches meanwhile. A tuner that searches switches; one that "
                "watches does not.",
                Query(f"max by (training_job) (ringtune_config_epoch{{{JOB}}})", "epoch, {{training_job}}"),
                Query(f"max by (training_job) ({switches})", "switches, {{training_job}}"),
                width=6,
            ),
        ],
    )


def _rate(name: str) -> str:
    """Return the rate of one of the engine's counters."""
    return f"rate(ringtune_engine_{name}{{{HERE}}}[$__rate_interval])"
