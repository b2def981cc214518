# SPDX-License-Identifier: Apache-2.0
"""Options that set variables of the ranks: knobs, tuner, timeline, stall watch, log level."""

from ringtune.settings.parsing import ChoiceReader, IntegerReader, NumberReader, TextReader

from .option import HasNoEffect, LaunchOption, OptionGroup, SetsVariable

MIB = 2**20
MANY = 2**31 - 1
HOROVOD_LOG_LEVELS = ("trace", "debug", "info", "warning", "error", "fatal")


def _plain(value: object) -> str:
    return str(value)


def _switch(value: bool) -> str:
    return "1" if value else "0"


KNOBS = OptionGroup(
    "Knobs, which the tuner then leaves alone",
    (
        LaunchOption(
            ("--fusion-threshold-mb",),
            "MiB of tensors that are reduced together; 0: none.",
            SetsVariable("HOROVOD_FUSION_THRESHOLD", lambda mebibytes: str(mebibytes * MIB)),
            IntegerReader(0, MANY),
            "MIB",
            key="params.fusion_threshold_mb",
        ),
        LaunchOption(
            ("--cycle-time-ms",),
            "Longest time in ms that a ready tensor waits for others.",
            SetsVariable("HOROVOD_CYCLE_TIME", lambda cycle_ms: f"{cycle_ms:g}"),
            NumberReader(0.0, float(MANY)),
            "MS",
            key="params.cycle_time_ms",
        ),
        LaunchOption(
            ("--cache-capacity",),
            "0: no cache of responses; any other number: a cache that grows as it must.",
            SetsVariable("HOROVOD_CACHE_CAPACITY", _plain),
            IntegerReader(0, MANY),
            "N",
            key="params.cache_capacity",
        ),
        LaunchOption(
            ("--hierarchical-allreduce",),
            "Reduce inside each host first, then between hosts.",
            SetsVariable("HOROVOD_HIERARCHICAL_ALLREDUCE", _switch),
            opposites=("--no-hierarchical-allreduce",),
            key="params.hierarchical_allreduce",
        ),
        LaunchOption(
            ("--hierarchical-allgather",),
            "Gather inside each host first, then between hosts.",
            SetsVariable("HOROVOD_HIERARCHICAL_ALLGATHER", _switch),
            opposites=("--no-hierarchical-allgather",),
            key="params.hierarchical_allgather",
        ),
    ),
)

TUNER = OptionGroup(
    "Tuner",
    (
        LaunchOption(
            ("--autotune",),
            "Tune while training, as AUTOTUNE=1 does.",
            SetsVariable("AUTOTUNE", _switch),
            opposites=("--no-autotune",),
            key="autotune.enabled",
        ),
        LaunchOption(
            ("--autotune-log-file",),
            "Tuning log, as AUTOTUNE_LOG; a name in .csv gives Horovod's columns.",
            SetsVariable("AUTOTUNE_LOG", _plain),
            TextReader(),
            "FILE",
            key="autotune.log_file",
        ),
        LaunchOption(
            ("--autotune-warmup-samples",),
            "Samples to leave out at first, each of as many steps as a sample has (10 unless given).",
            SetsVariable("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", _plain),
            IntegerReader(0, 10_000),
            "N",
            key="autotune.warmup_samples",
        ),
        LaunchOption(
            ("--autotune-steps-per-sample",),
            "Steps in a sample, as AUTOTUNE_STEPS_PER_SAMPLE.",
            SetsVariable("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", _plain),
            IntegerReader(1, 10_000),
            "N",
            key="autotune.steps_per_sample",
        ),
        LaunchOption(
            ("--autotune-bayes-opt-max-samples",),
            "Configs that the search may try, as AUTOTUNE_MAX_SAMPLES.",
            SetsVariable("AUTOTUNE_MAX_SAMPLES", _plain),
            IntegerReader(1, 10_000),
            "N",
            key="autotune.bayes_opt_max_samples",
        ),
        LaunchOption(
            ("--autotune-gaussian-process-noise",),
            "No effect: the tuner estimates the noise from its samples.",
            HasNoEffect("the tuner estimates the noise from its samples, and there is nothing to set"),
            NumberReader(0.0, 1.0),
            "FRACTION",
            key="autotune.gaussian_process_noise",
        ),
    ),
)

DIAGNOSIS = OptionGroup(
    "Timeline, stall watch, log",
    (
        LaunchOption(
            ("--timeline-filename", "--timeline"),
            "File for a Chrome trace, as RINGTUNE_TIMELINE.",
            SetsVariable("RINGTUNE_TIMELINE", _plain),
            TextReader(),
            "FILE",
            key="timeline.filename",
        ),
        LaunchOption(
            ("--timeline-mark-cycles",),
            "Show the engine's cycles in the trace, as RINGTUNE_TIMELINE_MARK_CYCLES=1.",
            SetsVariable("RINGTUNE_TIMELINE_MARK_CYCLES", _switch),
            opposites=("--no-timeline-mark-cycles",),
            key="timeline.mark_cycles",
        ),
        LaunchOption(
            ("--stall-check",),
            "Warn of ranks that others wait for; without it, after a day.",
            SetsVariable("HOROVOD_STALL_CHECK_DISABLE", lambda is_checked: _switch(not is_checked)),
            opposites=("--no-stall-check",),
            key="stall_check.enabled",
        ),
        LaunchOption(
            ("--stall-check-warning-time-seconds",),
            "Seconds until that warning, as RINGTUNE_STALL_WARN_S.",
            SetsVariable("HOROVOD_STALL_CHECK_TIME_SECONDS", _plain),
            IntegerReader(0, MANY),
            "SECONDS",
            key="stall_check.warning_time_seconds",
        ),
        LaunchOption(
            ("--stall-check-shutdown-time-seconds",),
            "Seconds until such a job is ended, as RINGTUNE_TIMEOUT_S; 0: as late as possible.",
            SetsVariable("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", _plain),
            IntegerReader(0, MANY),
            "SECONDS",
            key="stall_check.shutdown_time_seconds",
        ),
        LaunchOption(
            ("--log-level",),
            "Lowest level of the engine's messages, as RINGTUNE_LOG_LEVEL.",
            SetsVariable("HOROVOD_LOG_LEVEL", _plain),
            ChoiceReader(HOROVOD_LOG_LEVELS),
            "LEVEL",
            key="logging.level",
        ),
    ),
)
