# SPDX-License-Identifier: Apache-2.0
"""Tests of what is in force while exploration has cost too much: waiting may earn, but never costs."""

import math
import zlib

from ringtune.tuner import Config, Phase, RunSettings, TuningRun, default_config, make_designer
from ringtune.tuner.budget import EXPLORATION_SHARE
from ringtune.tuner.records import SampleRecord
from ringtune.tuner.testing import Disturbances, SyntheticTarget
from tests.unit.tuner.recording import RecordingLog, RecordingObserver

STEP_MS = 3000.0


def needle(config: Config) -> float:
    """Return about three times the default's step time for every other config: what no smooth model can believe."""
    place = zlib.crc32(str(sorted(config.items())).encode()) % 97
    return math.log(STEP_MS) + (0.0 if config == default_config() else 1.0 + 0.1 * math.sin(place))


def test_a_config_that_was_measured_to_be_slower_is_not_in_force_while_waiting() -> None:
    """Whatever the model makes of it: the time of waiting is on no account."""
    target = SyntheticTarget(surface=needle, disturbances=Disturbances(step_noise=0.03), seed=0)
    designer, log = make_designer("gp", target.space(), 0), RecordingLog()

    TuningRun(target, designer, RunSettings(), log, RecordingObserver(), clock=target.clock).run()

    samples = [r for r in log.records if isinstance(r, SampleRecord)]
    waited_ms = [float(r.step_ms["median"] or 0.0) for r in samples if r.phase == Phase.WATCH]
    lost_s = sum(r.steps * (float(r.step_ms["mean"] or 0.0) - STEP_MS) * 1e-3 for r in samples)
    assert waited_ms
    assert max(waited_ms) < 1.1 * STEP_MS
    assert lost_s < EXPLORATION_SHARE * target.now_s
