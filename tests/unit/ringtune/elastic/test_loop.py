# SPDX-License-Identifier: Apache-2.0
"""The loop around a training function, in a world of one."""

from collections.abc import Iterator
from typing import Any

import pytest

from ringtune.elastic import HostsUpdatedInterrupt, ObjectState, run
from ringtune.elastic.handlers import StateHandler, ValueHandler
from ringtune.elastic.loop import HOW_TO_START, elastic
from ringtune.elastic.membership import WorldMembership
from ringtune.errors import ConfigError, PeerLostError
from ringtune.meeting.rendezvous.progress import Progress
from ringtune.session.session import SESSION


class Alone(WorldMembership):
    """Worlds of one, one after the other, with updates at some looks."""

    def __init__(self, updates: tuple[int, ...] = ()) -> None:
        self._updates = updates
        self._looks = 0
        self.joined = 0
        self.told: list[tuple[Progress, str]] = []

    @property
    def is_elastic(self) -> bool:
        """True: a world of one can always be joined."""
        return True

    def has_update(self) -> bool:
        """Return whether this look has an update."""
        self._looks += 1
        return self._looks in self._updates

    def note_progress(self, progress: Progress, failure: str = "") -> None:
        """Keep the progress reported to the launcher."""
        self.told.append((progress, failure))

    def join(self) -> None:
        """Join, and count it."""
        self.joined += 1
        super().join()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the world at the end of each test."""
    monkeypatch.setenv("AUTOTUNE_CACHE", "0")
    yield
    SESSION.shutdown()


def test_a_loss_restores_the_last_commit() -> None:
    """Values are as they were at the commit, a list that grew in place included, and the function is called again."""
    state = ObjectState(step=0, losses=[])
    seen = []

    def train(state: Any) -> int:
        seen.append((state.step, list(state.losses)))
        while state.step < 4:
            state.step += 1
            state.losses.append(state.step)
            if state.step == 3 and len(seen) == 1:
                raise PeerLostError("rank 1 is gone")
            if state.step == 2:
                state.commit()
        return int(state.step)

    membership = Alone()
    result = elastic(train, membership)(state)

    assert 4 == result
    assert [(0, []), (2, [1, 2])] == seen
    assert [1, 2, 3, 4] == state.losses
    assert 2 == membership.joined


def test_an_update_keeps_what_was_trained() -> None:
    """An update is raised by the call that saw it, and the state is not rolled back."""
    state = ObjectState(step=0)
    seen = []

    def train(state: Any) -> None:
        seen.append(state.step)
        while state.step < 5:
            state.step += 1
            state.check_host_updates()

    elastic(train, Alone(updates=(3,)))(state)

    assert [0, 3] == seen


def test_reset_callbacks_run_in_the_new_world_before_the_state_is_synchronized() -> None:
    """A callback finds a world, and all ranks get its changes."""
    state = ObjectState(rate=0.0)
    state.register_reset_callbacks([lambda: setattr(state, "rate", 0.5 * SESSION.require().size)])
    rates = []

    def train(state: Any) -> None:
        rates.append(state.rate)
        if len(rates) == 1:
            raise HostsUpdatedInterrupt

    elastic(train, Alone())(state)

    assert [0.0, 0.5] == rates


def test_an_ordinary_exception_passes() -> None:
    """An error of the program ends the training, once."""
    calls = []

    def train(state: Any) -> None:
        calls.append(state)
        raise ValueError("the data is wrong")

    with pytest.raises(ValueError, match="the data is wrong"):
        elastic(train, Alone())(ObjectState(step=0))
    assert 1 == len(calls)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError("folder\nfull"), "PermissionError: folder"),
        (SystemExit(3), "sys.exit(3)"),
    ],
)
def test_the_launcher_is_told_of_commits_and_errors(error: BaseException, words: str) -> None:
    """A meeting reports the place of the last commit; the end adds the error and the counters that moved since."""

    def train(state: Any) -> None:
        if len(membership.told) == 1:
            state.done["steps"] = 12
            raise error
        for state.done["steps"] in (10, 11):
            state.commit()
        state.done["steps"] = 15
        raise PeerLostError("rank 1 is gone")

    membership = Alone()
    with pytest.raises(type(error)):
        elastic(train, membership)(ObjectState(epoch=3, done={"steps": 0}, losses=[1, 2], seed=2**60))

    at = {"epoch": 3, "done.steps": 11}
    assert [
        (Progress(at, commits=1), ""),
        (Progress(at, frozenset(["done.steps"]), 0), f"{words}, at epoch 3, done.steps 12"),
    ] == membership.told


def test_a_loss_without_a_next_meeting_says_how_to_start() -> None:
    """The error of a job that is not elastic passes, with a note on how to start it."""

    @run
    def train(state: Any) -> None:
        raise PeerLostError("rank 1 is gone")

    with pytest.raises(PeerLostError) as caught:
        train(ObjectState(step=0))
    assert [HOW_TO_START] == caught.value.__notes__


def test_a_state_refuses_what_it_cannot_send() -> None:
    """A value that other ranks cannot get, and a name that the state needs, are errors at once."""
    with pytest.raises(ConfigError, match="value 'rates' of the state is not possible: a builtins.object"):
        ObjectState(rates=object())
    with pytest.raises(ConfigError, match="cannot hold values named commit; choose other names"):
        ObjectState(commit=1)


class Spy(ValueHandler):
    """Takes note of whether its rank counted as one with the newest state."""

    def __init__(self) -> None:
        super().__init__("step", 0)
        self.found: list[bool] = []

    def synced(self, value: Any, name: str, *, is_current: bool) -> None:
        """Take note."""
        super().synced(value, name, is_current=is_current)
        self.found.append(is_current)


def test_a_rank_of_another_history_counts_as_a_newcomer() -> None:
    """Equal versions of two histories are two states: neither tells the progress of the other."""
    spy = Spy()

    class Split(ObjectState):
        """State whose root has another history from the third synchronization on."""

        def _handler_of(self, name: str, value: Any) -> StateHandler:
            return spy

        def _broadcast(self, tree: dict[str, Any], root: int) -> Any:
            return {**tree, "lineage": tree["lineage"] + (len(spy.found) == 2)}

    SESSION.init()
    state = Split(step=0)

    for _ in range(3):
        state.sync()

    assert [True, True, False] == spy.found
