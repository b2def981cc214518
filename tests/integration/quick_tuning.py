# SPDX-License-Identifier: Apache-2.0
"""Variables of a job whose tuner decides after three short samples."""

QUICK = {
    "AUTOTUNE": "1",
    "AUTOTUNE_MAX_SAMPLES": "3",
    "AUTOTUNE_WARMUP_STEPS": "5",
    "AUTOTUNE_STEPS_PER_SAMPLE": "5",
    "AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=5",
}
UNTIL_DECIDED = "100000"
"""Seconds that the program `tuned` may take: it ends with the tuner's decision, however slow the machine is."""
