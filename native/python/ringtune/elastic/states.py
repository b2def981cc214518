# SPDX-License-Identifier: Apache-2.0
"""States of a training: the values that a commit keeps, a loss restores, and a newcomer gets."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ringtune.arrays import broadcast_object
from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.progress import MAX_COUNTERS, MAX_NAME_CHARACTERS, Progress
from ringtune.session.session import SESSION

from .agreement import RankWords, agree, newest
from .handlers import StateHandler, ValueHandler
from .interrupts import HostsUpdatedInterrupt
from .resize import Resize, ResizePolicy, keep_learning_rate

SHOWN_COUNTERS = 4  # in a line of the launcher
LINEAGE_BITS = 62  # random bits that tell two histories of a state apart, within an int64


class State:
    """Base of all states: commits, agreed updates and reset callbacks. A subclass has save, restore and sync."""

    def __init__(self, bcast_object: Any = None, get_rank: Any = None) -> None:
        """Begin without a commit.

        Args:
            bcast_object: Horovod's; not needed.
            get_rank: Horovod's; not needed.
        """
        del bcast_object, get_rank
        self._reset_callbacks: list[Callable[[], Any]] = []
        self._look_for_update: Callable[[], bool] = _never
        self._version = 0  # number of agreements behind what the state holds, the same on all ranks
        self._committed_version = 0
        self._progress = Progress()

    def attach(self, has_update: Callable[[], bool]) -> None:
        """Let the state ask for updates; `run` calls it.

        Args:
            has_update: Returns whether this rank knows that workers come or leave.
        """
        self._look_for_update = has_update

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], Any]]) -> None:
        """Add functions that are called after each meeting and before the ranks synchronize.

        Args:
            callbacks: Functions without arguments, such as one that sets the learning rate for `size()` ranks.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Call `reset`, then the reset callbacks in their order."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def reset(self) -> None:
        """Prepare for a new world; a subclass may override it."""

    def commit(self) -> None:
        """Keep the state as it is now, and look for updates; every rank calls it at the same step.

        Raises:
            HostsUpdatedInterrupt: If workers come or leave; on every rank, after the state was saved.
            EngineError: If the world is lost; the last commit is then the one before.
        """
        has_update = self._agree()
        self.save()
        counters, before = self._counters(), self._progress
        commits = 1 + (before.commits if counters == before.counters else 0)
        self._progress = Progress(counters, commits=commits)
        if has_update:
            raise HostsUpdatedInterrupt

    def check_host_updates(self) -> None:
        """Look for updates without keeping the state; every rank calls it at the same step.

        Raises:
            HostsUpdatedInterrupt: If workers come or leave; on every rank. The training keeps its progress.
            EngineError: If the world is lost.
        """
        if self._agree():
            raise HostsUpdatedInterrupt

    def save(self) -> None:
        """Keep the state in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Return to the state that was saved last."""
        raise NotImplementedError

    def sync(self) -> None:
        """Bring the state of one rank to all ranks."""
        raise NotImplementedError

    @property
    def has_commit(self) -> bool:
        """True if there is a commit that `restore` returns to, of this rank or of one that it has synchronized with."""
        return self._committed_version > 0

    def begin_attempt(self) -> None:
        """Begin to count commits anew, from a state that was synchronized; `run` calls it."""
        self._progress = Progress(self._counters())

    def progress_at_commit(self) -> Progress:
        """Return the place of the last commit, and which counters have moved since."""
        kept, now = self._progress, self._counters()
        moving = frozenset(name for name in now if now[name] != kept.counters.get(name))
        return Progress(kept.counters, moving, kept.commits)

    def counters_in_words(self) -> str:
        """Return the counters, for an error's text: `, at epoch 3, step 19`; empty where there are none."""
        shown = [f"{name} {count}" for name, count in list(self._counters().items())[:SHOWN_COUNTERS]]
        return f", at {', '.join(shown)}" if shown else ""

    def _counters(self) -> dict[str, int]:
        """Return integers that measure the training's progress, by name."""
        return {}

    def _agree(self) -> bool:
        """Agree with all ranks on updates, and take their words; return whether there is an update."""
        agreement = agree(self._words(), has_update=self._look_for_update())
        self._version += 1
        self._heed(agreement)
        return agreement.has_update

    def _words(self) -> list[int]:
        """Return integers that all ranks are to know; as many on every rank."""
        return []

    def _heed(self, agreement: RankWords) -> None:
        """Take the words of all ranks."""


class ObjectState(State):
    """State of plain values, which are its attributes: `ObjectState(epoch=0, losses=[])`.

    A commit copies the values, so that a list that grew afterwards is restored too. Values are plain data: numbers,
    texts, containers, paths, enums, dataclasses, arrays and tensors, which keep their types; see
    `ringtune.system.plain_classes`. Data that arrives from another rank is never executed.
    """

    _handlers: dict[str, StateHandler]

    def __init__(self, bcast_object: Any = None, get_rank: Any = None, **kwargs: Any) -> None:
        """Take values and save them.

        Args:
            bcast_object: Horovod's; not needed.
            get_rank: Horovod's; not needed.
            kwargs: Values by name; the same names on all ranks.

        Raises:
            ConfigError: If a name is one of the state's own, or a value cannot be sent to other ranks.
        """
        super().__init__(bcast_object, get_rank)
        self._size: int | None = _size_of_world()  # number of ranks for which the learning rate was set
        self._lineage = 0  # of the world that the state was synchronized in; equal versions of others are others
        self._policy: ResizePolicy = keep_learning_rate
        own = sorted(name for name in kwargs if name.startswith("_") or hasattr(type(self), name))
        if own:
            raise ConfigError(f"{type(self).__name__} cannot hold values named {', '.join(own)}; choose other names")
        for name, value in kwargs.items():
            setattr(self, name, value)
        self._handlers = {name: self._handler_of(name, value) for name, value in kwargs.items()}
        self.save()

    def __getattr__(self, name: str) -> Any:
        """Refuse a name that the state does not have, with those that it has."""
        names = ", ".join(vars(self).get("_handlers", ())) or "nothing"
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; its values are {names}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A model or another object with a handler is saved at once, as in Horovod."""
        super().__setattr__(name, value)
        handler = vars(self).get("_handlers", {}).get(name)
        if handler is not None and not isinstance(handler, ValueHandler):
            self._handlers[name] = self._handler_of(name, value)
            self._handlers[name].save(value)

    def register_resize_policy(self, policy: ResizePolicy) -> None:
        """Choose the change of learning rate and batch when the number of ranks changes.

        Args:
            policy: Called on every rank after it has synchronized in a world of another size.
        """
        self._policy = policy

    def save(self) -> None:
        """Keep a copy of the state in memory."""
        for name, handler in self._handlers.items():
            handler.save(getattr(self, name))
        self._saved_origin = (self._size, self._lineage)
        self._committed_version = self._version

    def restore(self) -> None:
        """Return to the state that was saved last."""
        for name, handler in self._handlers.items():
            self._set(name, handler.restore(getattr(self, name)))
        self._size, self._lineage = self._saved_origin
        self._version = self._committed_version

    def sync(self) -> None:
        """Bring the newest state to all ranks, from the first rank that has it, and save it.

        Raises:
            ConfigError: If it cannot be sent, or ranks have different values; where the state cannot be sent, on every
                rank.
            EngineError: If the world is lost.
        """
        version, root = newest(self._version)
        is_root = _rank_of_world() == root
        own = {name: handler.live(getattr(self, name)) for name, handler in self._handlers.items()}
        origin = {"size": self._size, "lineage": self._lineage, "next": secrets.randbits(LINEAGE_BITS)}
        received = self._broadcast({**origin, "values": own}, root)
        self._check_names(received["values"], root)
        is_current = (version, received["lineage"]) == (self._version, self._lineage)
        for name, handler in self._handlers.items():
            value = getattr(self, name)
            if not is_root:
                value = handler.load(value, received["values"][name])
                self._set(name, value)
            handler.synced(value, f"elastic.{name}", is_current=is_current)
        old, self._size = received["size"], _size_of_world()
        self._version, self._lineage = version, received["next"]
        if old is not None and self._size is not None and old != self._size:
            self._policy(Resize(self, old, self._size))
        self.save()

    def _handler_of(self, name: str, value: Any) -> StateHandler:
        """Return the handler for a value."""
        return ValueHandler(name, value)

    def _broadcast(self, tree: dict[str, Any], root: int) -> Any:
        """Return the root's tree on every rank; a rank's own shows where it has room for arrays of the root."""
        return broadcast_object(tree, root, "elastic.state")

    def _set(self, name: str, value: Any) -> None:
        """Set a value without saving it."""
        super().__setattr__(name, value)

    def _check_names(self, values: Mapping[str, Any], root: int) -> None:
        if set(values) != set(self._handlers):
            raise ConfigError(
                f"the state of rank {root} has {', '.join(sorted(values)) or 'nothing'}, and that of rank "
                f"{_rank_of_world()} has {', '.join(sorted(self._handlers)) or 'nothing'}; run one program on all ranks"
            )

    def _counters(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for name, handler in self._handlers.items():
            found.update(handler.counters(name[:MAX_NAME_CHARACTERS], vars(self).get(name)))
        return dict(list(found.items())[:MAX_COUNTERS])

    def _words(self) -> list[int]:
        words = [handler.words(getattr(self, name)) for name, handler in self._handlers.items()]
        return [word for part in words for word in part]

    def _heed(self, agreement: RankWords) -> None:
        begin = 0
        for name, handler in self._handlers.items():
            count = len(handler.words(getattr(self, name)))
            parts = [words[begin : begin + count] for words in agreement.words]
            begin += count
            if count:
                handler.heed(getattr(self, name), parts, f"elastic.{name}")


def _never() -> bool:
    return False


def _rank_of_world() -> int:
    return SESSION.require().rank


def _size_of_world() -> int | None:
    return SESSION.require().size if SESSION.is_initialized else None
