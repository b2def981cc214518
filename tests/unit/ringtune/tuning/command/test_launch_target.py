# SPDX-License-Identifier: Apache-2.0
"""Launches of a command as windows: alone, and several at the same time."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import (
    Config,
    Phase,
    RunSettings,
    TargetClosed,
    TuningRun,
    VoidReason,
    Window,
    WindowSpec,
    make_designer,
)
from ringtune.tuning.command.engines import find_engine
from ringtune.tuning.command.launch_target import LaunchEvent, LaunchTarget
from ringtune.tuning.command.launching import SLOT_VARIABLE, CommandLauncher, Launched, LaunchEnding, LaunchLimits
from ringtune.tuning.command.scores import WallScore
from ringtune.tuning.command.stop_request import StopRequest
from tests.unit.tuner.recording import RecordingLog, RecordingObserver
from tests.waiting import LIMIT_S

ENGINE = find_engine("openmpi")
BASELINE = ENGINE.baseline()
RING = BASELINE.replace({"small_algorithm": "ring"})
LINEAR = BASELINE.replace({"small_algorithm": "basic_linear"})
RULES = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
GOOD = Launched((5.0, 5.0), LaunchEnding.BY_ITSELF, 0, 0.1, ())
FAILED = Launched((), LaunchEnding.BY_ITSELF, 3, 0.1, ("out of luck",))
STOPPED = Launched((), LaunchEnding.STOPPED, 143, 0.1, ())

Answer = Callable[[Mapping[str, str]], Launched]


class MeetingLauncher(CommandLauncher):
    """Starts no process: each launch waits until as many as expected run at the same time, and is then answered.

    Attributes:
        at_once: Number of launches that are expected to run at the same time.
        sizes: Number of launches at the same time, for each launch.
        variables: Variables of each launch, by its slot, the newest last.
    """

    def __init__(self, stop: StopRequest, answer: Answer = lambda _: GOOD) -> None:
        """Answer each launch by its variables."""
        super().__init__(["app"], {}, WallScore(), stop)
        self.answer = answer
        self.sizes: list[int] = []
        self.variables: list[Mapping[str, str]] = []
        self._lock = threading.Lock()
        self._running = 0
        self.expect(1)

    def expect(self, at_once: int) -> None:
        """Let the next launches wait for each other."""
        self._barrier = threading.Barrier(at_once)

    def launch(
        self, variables: Mapping[str, str], limits: LaunchLimits, command: Sequence[str] | None = None
    ) -> Launched:
        """Wait for the others, and answer."""
        del limits, command
        with self._lock:
            self._running += 1
            self.variables.append(dict(variables))
        self._barrier.wait(LIMIT_S)
        with self._lock:
            self.sizes.append(self._running)
        self._barrier.wait(LIMIT_S)
        with self._lock:
            self._running -= 1
        return self.answer(variables)


class ExpectedTarget(LaunchTarget):
    """Tells its launcher how many launches it is asked for at the same time."""

    _launcher: MeetingLauncher

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Launch alone."""
        self._launcher.expect(1)
        return super().windows(spec)

    def windows_at_once(self, specs: Sequence[WindowSpec]) -> Iterator[Window]:
        """Launch at the same time."""
        self._launcher.expect(len(specs))
        return super().windows_at_once(specs)


@pytest.fixture
def stop() -> Iterator[StopRequest]:
    """Yield a request to end that has not been made."""
    with closing(StopRequest()) as request:
        yield request


def target_of(launcher: MeetingLauncher, folder: Path, events: list[LaunchEvent] | None = None) -> LaunchTarget:
    """Return a target that launches by a launcher."""
    noted = [] if events is None else events
    return LaunchTarget(ENGINE, ENGINE.space({}), launcher, folder, 60.0, on_launch=noted.append)


def specs_of(target: LaunchTarget, *configs: Config) -> list[WindowSpec]:
    """Return a spec for each config."""
    return [WindowSpec(target.apply(config), 0, 1, 0.0) for config in configs]


def prepared(launcher: MeetingLauncher, folder: Path, events: list[LaunchEvent] | None = None) -> LaunchTarget:
    """Return a target whose baseline has run alone and beside itself."""
    target = target_of(launcher, folder, events)
    next(target.windows(*specs_of(target, BASELINE)))
    launcher.expect(2)
    assert [None, None] == [w.void_reason for w in target.windows_at_once(specs_of(target, BASELINE, BASELINE))]
    return target


def test_launches_run_at_the_same_time_with_files_of_their_own(stop: StopRequest, tmp_path: Path) -> None:
    """Each finds its own rules at its own path; the windows have the epochs, and their order, of the specs."""
    rules: dict[str, str] = {}

    def answer(variables: Mapping[str, str]) -> Launched:
        rules[variables[SLOT_VARIABLE]] = Path(variables[RULES]).read_text("utf-8")
        return GOOD

    events: list[LaunchEvent] = []
    launcher = MeetingLauncher(stop)
    target = prepared(launcher, tmp_path / "out", events)
    launcher.answer = answer
    specs = specs_of(target, RING, LINEAR)

    windows = list(target.windows_at_once(specs))

    assert [1, 2, 2, 2, 2] == launcher.sizes
    assert [spec.epoch for spec in specs] == [window.epoch for window in windows]
    assert ["0", "1"] == sorted(rules)
    assert ["0 4 0 0", "0 1 0 0"] == [rules[slot].splitlines()[-2] for slot in ("0", "1")]
    assert [RING, LINEAR] == [event.config for event in events[-2:]]
    assert [1, 2, 2, 2, 2] == [event.at_once for event in events]
    target.close()
    assert [] == list(tmp_path.iterdir())


def test_a_launch_that_fails_takes_no_other_with_it(stop: StopRequest, tmp_path: Path) -> None:
    """Its window is void, its config given up; a group of configs that were all given up is not launched."""
    launcher = MeetingLauncher(stop)
    target = prepared(launcher, tmp_path)
    launcher.answer = lambda variables: FAILED if variables[SLOT_VARIABLE] == "0" else GOOD

    windows = list(target.windows_at_once(specs_of(target, RING, LINEAR)))
    again = list(target.windows_at_once(specs_of(target, RING)))

    assert [VoidReason.LAUNCH_FAILED, None] == [window.void_reason for window in windows]
    assert [VoidReason.LAUNCH_FAILED] == [window.void_reason for window in again]
    assert {RING} == target.given_up == set(target.refusals)
    assert 5 == len(launcher.sizes)


def test_wrong_results_beside_others_are_found(stop: StopRequest, tmp_path: Path) -> None:
    """Each launch is compared with the baseline's first one."""
    launcher = MeetingLauncher(stop, lambda _: Launched((5.0,), LaunchEnding.BY_ITSELF, 0, 0.1, (), (1.0,)))
    target = prepared(launcher, tmp_path)
    right = launcher.answer
    wrong = Launched((5.0,), LaunchEnding.BY_ITSELF, 0, 0.1, (), (2.0,))
    launcher.answer = lambda variables: wrong if variables[SLOT_VARIABLE] == "1" else right(variables)

    windows = list(target.windows_at_once(specs_of(target, RING, LINEAR)))

    assert [None, VoidReason.LAUNCH_FAILED] == [window.void_reason for window in windows]
    assert "gave wrong results: result 1 is 2" in target.refusals[LINEAR]


def test_a_command_that_cannot_run_beside_itself_ends_the_run(stop: StopRequest, tmp_path: Path) -> None:
    """Alone it works: the refusal has the reason and the remedy."""
    launcher = MeetingLauncher(stop)
    target = target_of(launcher, tmp_path)
    next(target.windows(*specs_of(target, BASELINE)))
    launcher.expect(2)
    launcher.answer = lambda variables: FAILED if variables[SLOT_VARIABLE] == "1" else GOOD

    with pytest.raises(TargetClosed):
        list(target.windows_at_once(specs_of(target, BASELINE, BASELINE)))

    assert isinstance(target.error, ConfigError)
    assert str(target.error).startswith(
        "--parallel 2 is not possible: alone app works, and 1 of 2 launches at once gave: failed with exit code 3"
    )
    assert "by RINGTUNE_LAUNCH_SLOT (0 to 1), or use --parallel 1" in str(target.error)


def test_what_was_complete_at_the_users_end_counts(stop: StopRequest, tmp_path: Path) -> None:
    """The second launch has ended by itself before the first was stopped; no launch follows."""
    launcher = MeetingLauncher(stop)
    target = prepared(launcher, tmp_path)
    launcher.answer = lambda variables: STOPPED if variables[SLOT_VARIABLE] == "0" else GOOD
    specs = specs_of(target, RING, LINEAR)

    windows = target.windows_at_once(specs)

    assert specs[1].epoch == next(windows).epoch
    with pytest.raises(TargetClosed):
        next(windows)
    assert set() == target.given_up
    stop.note(2)
    with pytest.raises(TargetClosed):
        list(target.windows_at_once(specs))
    assert 5 == len(launcher.sizes)


def test_a_file_that_cannot_be_written_ends_the_run(stop: StopRequest, tmp_path: Path) -> None:
    """The launch beside it is waited for, and the reason is the error."""
    launcher = MeetingLauncher(stop)
    target = prepared(launcher, tmp_path)
    launcher.expect(1)
    (tmp_path / f"{target._folder.name}").write_bytes(b"in the way")

    with pytest.raises(TargetClosed):
        list(target.windows_at_once(specs_of(target, BASELINE, RING)))

    assert "cannot be written" in str(target.error)
    assert 4 == len(launcher.sizes)


def test_a_run_searches_at_once_and_tests_alone(stop: StopRequest, tmp_path: Path) -> None:
    """Each launch of baseline and search meets its neighbours, and each of the adoption test has none."""
    fast = Launched((2.0, 2.0), LaunchEnding.BY_ITSELF, 0, 0.1, ())
    launcher = MeetingLauncher(stop, lambda variables: fast if RULES in variables else GOOD)
    events: list[LaunchEvent] = []
    target = ExpectedTarget(ENGINE, ENGINE.space({}), launcher, tmp_path, 60.0, on_launch=events.append)
    settings = RunSettings(max_samples=6, fixed_windows=True, warmup_steps=0, at_once=2, adoption_pairs=3)
    log = RecordingLog()

    designer = make_designer("random", target.space(), 0, are_trials_cheap=True)
    result = TuningRun(target, designer, settings, log, RecordingObserver()).run()

    assert result.adopted, result.verdict
    phases = [getattr(record, "phase", None) for record in log.records if hasattr(record, "step_ms")]
    tested = sum(phase == Phase.ADOPTION for phase in phases)
    assert [1, *[2] * (len(launcher.sizes) - 1 - tested), *[1] * tested] == launcher.sizes
    assert launcher.sizes == [event.at_once for event in events]
