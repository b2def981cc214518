# SPDX-License-Identifier: Apache-2.0
"""The engine as the tuner's target, against an engine that plays from a script."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ringtune.errors import ConfigError, PeerLostError, RingtuneError
from ringtune.tuner import TargetClosed, VoidReason, WindowSpec, default_config, search_space
from ringtune.tuning.engine.target import EngineTarget
from ringtune.world.engine_config import engine_config

SPEC = WindowSpec(epoch=4, settle_steps=3, steps=2, limit_ms=50.0)


@dataclass(frozen=True)
class ScriptedWindow:
    """A window as the engine would return it."""

    epoch: int = 4
    step_ms: tuple[float, ...] = (1.0, 2.0)
    bytes_per_step: int = 100
    tensor_set: int = 9
    void_reason: str | None = None
    was_cut: bool = False
    last_step: int = 7


@dataclass
class ScriptedEngine:
    """Plays windows, empty answers and errors in their order, and notes the calls."""

    script: list[Any] = field(default_factory=list)
    begun: list[tuple[Any, ...]] = field(default_factory=list)
    applied: list[Any] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)

    def apply_config(self, config: Any) -> int:
        """Note the config; its epoch counts up."""
        self._play_error()
        self.applied.append(config)
        return len(self.applied)

    def timeline_event(self, name: str, detail: str) -> None:
        """Note the event."""
        self.events.append((name, detail))

    def begin_window(self, epoch: int, settle_steps: int, steps: int, limit_ms: float) -> None:
        """Note the order."""
        self.begun.append((epoch, settle_steps, steps, limit_ms))

    def next_window(self, timeout_s: float) -> Any:
        """Play the next item of the script."""
        assert timeout_s < 1.0
        self._play_error()
        return self.script.pop(0)

    def _play_error(self) -> None:
        if self.script and isinstance(self.script[0], RingtuneError):
            raise self.script.pop(0)


def make_target(script: Sequence[Any]) -> tuple[EngineTarget, ScriptedEngine, threading.Event]:
    """Return a target over a scripted engine, and the event that closes it."""
    engine, closing, baseline = ScriptedEngine(list(script)), threading.Event(), default_config()
    return EngineTarget(engine, search_space({}, baseline), baseline, closing), engine, closing


def test_windows_come_translated_and_only_the_first_settles() -> None:
    """The settling steps belong to the switch, not to each window; polling does not show."""
    script = [None, ScriptedWindow(), None, None, ScriptedWindow(void_reason="pause", was_cut=True)]
    target, engine, _ = make_target(script)
    windows = target.windows(SPEC)

    first, second = next(windows), next(windows)

    assert (4, (1.0, 2.0), 100, 9, None) == (
        first.epoch,
        first.step_ms,
        first.bytes_per_step,
        first.tensor_set,
        first.void_reason,
    )
    assert (VoidReason.PAUSE, True, 7) == (second.void_reason, second.was_cut, second.last_step)
    assert [(4, 3, 2, 50.0), (4, 0, 2, 50.0)] == engine.begun


@pytest.mark.parametrize("reason", ["pause", "tensor_set_changed", "mixed_epochs", "no_gradients"])
def test_every_reason_of_the_engine_is_known(reason: str) -> None:
    """The binding's words for void windows are the tuner's."""
    target, _, _ = make_target([ScriptedWindow(void_reason=reason)])

    assert VoidReason(reason) is next(target.windows(SPEC)).void_reason


def test_a_config_reaches_the_engine_field_by_field() -> None:
    """Every parameter has its field, and auto is zero where the engine has a number."""
    target, engine, _ = make_target([])
    config = default_config().replace({"fusion_bytes": 65536, "cycle_ms": 2.5, "response_cache": False})

    epoch = target.apply(config)

    assert 1 == epoch
    (applied,) = engine.applied
    assert (65536, 2.5, False) == (applied.fusion_bytes, applied.cycle_ms, applied.response_cache)
    assert (0, "auto") == (applied.chunk_bytes, applied.allreduce_algorithm)
    ((name, detail),) = engine.events
    assert "tuner_asks" == name
    assert detail.startswith("epoch 1: fusion_bytes 64 KiB, cycle_ms 2.5 ms")


def test_different_configs_have_different_hashes() -> None:
    """The engine compares the tuner's choices by their hashes."""
    hashes = {engine_config(default_config().replace({"chunk_bytes": size})).hash() for size in ("auto", 65536, 131072)}

    assert 3 == len(hashes)


def test_the_end_of_the_job_ends_the_wait() -> None:
    """A target that waits for a window is closed by the event."""
    target, _, closing = make_target([None] * 100)
    closing.set()

    with pytest.raises(TargetClosed):
        next(target.windows(SPEC))
    with pytest.raises(TargetClosed):
        target.apply(default_config())


def test_a_lost_world_closes_the_target() -> None:
    """To the tuner a lost peer is the end of the job, and no failure of its own."""
    target, _, _ = make_target([PeerLostError("rank 1 is gone")])

    with pytest.raises(TargetClosed, match="rank 1 is gone"):
        next(target.windows(SPEC))


def test_a_refused_config_is_the_tuners_own_error() -> None:
    """The engine's refusal of a config is not taken for the end of the job."""
    target, _, _ = make_target([ConfigError("no such algorithm")])

    with pytest.raises(ConfigError):
        target.apply(default_config())


def test_space_and_baseline_are_handed_through() -> None:
    """The target gives the legal configs and the job's present config."""
    target, _, _ = make_target([])

    assert "ringtune" == target.name
    assert target.space().contains(target.baseline())
