# SPDX-License-Identifier: Apache-2.0
"""Values of parameters as people read them."""

import pytest

from ringtune.tuner import readable_value


@pytest.mark.parametrize(
    ("knob", "value", "expected"),
    [
        ("fusion_bytes", 0, "0 (off)"),
        ("fusion_bytes", 65536, "64 KiB"),
        ("fusion_bytes", 3 << 19, "1.5 MiB"),
        ("chunk_bytes", "auto", "auto"),
        ("cycle_ms", 0.123456, "0.123 ms"),
        ("response_cache", False, "off"),
    ],
)
def test_values_are_shown_with_their_units(knob: str, value: bool | float | str, expected: str) -> None:
    """A newcomer sees sizes in KiB and MiB, times in ms, switches as on and off."""
    assert expected == readable_value(knob, value)
