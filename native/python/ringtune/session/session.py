# SPDX-License-Identifier: Apache-2.0
"""The one holder of this process's world, for the module-level API that Horovod's users know.

`SESSION` is the only object of the package that changes: everything else gets its world handed in.
"""

import atexit
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from ringtune import _engine
from ringtune.errors import ConfigError, ForkedProcessError
from ringtune.meeting.bootstrap import environment, find_place
from ringtune.meeting.bootstrap.generations import Generations
from ringtune.meeting.bootstrap.joining import find_client
from ringtune.meeting.bootstrap.ownership import Ownership, identify
from ringtune.meeting.rendezvous.client import RendezvousClient
from ringtune.metrics.server import MetricsServer
from ringtune.metrics.tuner_facts import TunerFacts
from ringtune.system.cache_files import user_cache_folder
from ringtune.system.standard_streams import occupy_standard_streams
from ringtune.tuning.engine import Autotune
from ringtune.tuning.job.callbacks import RegisteredCallbacks
from ringtune.world.set_registry import ProcessSet, SetRegistry
from ringtune.world.world import FindPlace, World, join_world


class Session:
    """Holds the world between `init()` and `shutdown()`. Changed from the main thread; reading is safe anywhere.

    Attributes:
        callbacks: Receivers of the tuner's events; they outlive a world.
        global_process_set: The set of all ranks; usable while there is a world.
        rendezvous: Connection to the rendezvous server that gives this process its place, also between two worlds;
            None where the job was started in another way.
    """

    def __init__(self) -> None:
        self.callbacks = RegisteredCallbacks()
        self.global_process_set = ProcessSet()
        self.rendezvous: RendezvousClient | None = None
        self._world: World | None = None
        self._sets: SetRegistry | None = None
        self._autotune: Autotune | None = None
        self._metrics: MetricsServer | None = None
        self._generations = Generations()
        self._ownership = Ownership()
        self._listener: socket.socket | None = None
        self._observers: list[Callable[[World | None], None]] = []
        self._is_lent = False
        self._was_lent = False
        self._others: dict[int, World] = {}  # needs no lock: each change is one operation of the interpreter
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._after_fork_in_child)
        atexit.register(self._leave)

    @property
    def is_initialized(self) -> bool:
        """True if there is a world."""
        return self._world is not None

    def require(self) -> World:
        """Return the world.

        Raises:
            ConfigError: If `init()` was not called.
        """
        if self._world is None:
            raise ConfigError("ringtune is not initialized; call init() first")
        return self._world

    def add_set(self, process_set: ProcessSet) -> ProcessSet:
        """Make a process set usable; see `SetRegistry.add`. Raises `ConfigError` where there is no world."""
        added = self.require_sets().add(process_set)
        self._tell_observers(self._world)
        return added

    def remove_set(self, process_set: ProcessSet) -> bool:
        """Make a process set unusable; see `SetRegistry.remove`. Raises `ConfigError` where there is no world."""
        is_removed = self.require_sets().remove(process_set)
        self._tell_observers(self._world)
        return is_removed

    def require_sets(self) -> SetRegistry:
        """Return the process sets of the world.

        Raises:
            ConfigError: If `init()` was not called.
        """
        if self._sets is None:
            raise ConfigError("ringtune is not initialized; call init() first")
        return self._sets

    def hand_over(self, listener: socket.socket) -> None:
        """Give the next `init()` the open socket on which rank 0 meets the others, so that its port cannot be taken.

        Args:
            listener: See `open_meeting_point`. It is closed if that `init()` finds another address in its variables.
        """
        if self._listener is not None:
            self._listener.close()
        self._listener = listener

    def observe(self, observer: Callable[[World | None], None]) -> None:
        """Call an observer now and at each change of the world or of its process sets, and with None before it is left.

        Args:
            observer: Keeps the handle by which a compiled part finds the engine; must not raise.
        """
        self._observers.append(observer)
        observer(self._world)

    def init(self, process_sets: Sequence[ProcessSet | Iterable[int]] = ()) -> None:
        """Join the world; returns at once while there is one.

        Args:
            process_sets: Sets to add at once, or their global ranks; the same on all ranks.

        Raises:
            ForkedProcessError: In a forked child of a process that has a world.
            ConfigError: See `Ownership.claim`, `join_world` and `SetRegistry.add`.
            CollectiveTimeout: See `join_world`.
            PeerLostError: See `join_world`.
            RendezvousError: See `RendezvousClient.next_place`.
        """
        if self._world is not None:
            self._is_lent = False
            if os.getpid() != self._pid:
                raise ForkedProcessError(
                    f"process {os.getpid()} was forked from rank {self._world.rank} (pid {self._pid}); a forked child "
                    "cannot join the world"
                )
            return
        occupy_standard_streams()
        environ = self._ownership.claim(environment())
        generation = self._generations.next(environ)
        self._join(environ, partial(self._finder, environ, generation), process_sets, is_first=generation == 0)

    def lend(self, find: FindPlace, environ: Mapping[str, str]) -> None:
        """Join a world whose place torch gives to its process group, until `release` or `shutdown`.

        Args:
            find: Returns this process's place, within a time limit in seconds.
            environ: The environment.

        Raises:
            ConfigError: See `join_world`.
            CollectiveTimeout: See `join_world`.
            PeerLostError: See `join_world`.
        """
        occupy_standard_streams()
        is_first, self._was_lent = not self._was_lent, True
        self._join(environ, lambda: find, is_first=is_first)
        self._is_lent = True

    def release(self) -> None:
        """Leave a world that was lent, unless a front end has called `init()` since: then it is that front end's."""
        if self._is_lent:
            self.shutdown()

    def keep(self, world: World) -> World:
        """Note a world beside this one, which forked children abandon and the interpreter's end leaves; return it."""
        self._others[id(world)] = world
        return world

    @property
    def worlds(self) -> tuple[World, ...]:
        """The world, if there is one, and those that are kept beside it."""
        return (*self._others.values(), *(() if self._world is None else (self._world,)))

    def leave(self, world: World) -> None:
        """Leave a world that was noted."""
        self._others.pop(id(world), None)
        world.shutdown()

    def _join(
        self,
        environ: Mapping[str, str],
        finder: Callable[[], FindPlace],
        process_sets: Sequence[ProcessSet | Iterable[int]] = (),
        *,
        is_first: bool,
    ) -> None:
        self._pid = os.getpid()
        autotune = Autotune(user_cache_folder(environ), self.callbacks)
        listener, self._listener = self._listener, None
        try:
            find = finder()
            world = join_world(environ, find, autotune.prepare, listener, is_first=is_first)
        except BaseException:
            autotune.stop()
            if listener is not None:
                listener.close()
            raise
        self._ownership.withhold_key(environment())
        self._world, self._autotune = world, autotune
        self._sets = SetRegistry(world, self.global_process_set)
        try:
            for process_set in process_sets:
                self._sets.add(process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set))
        except BaseException:
            self.shutdown()
            raise
        self._tell_observers(world)
        autotune.start(world)
        self._metrics = _serve_metrics(world, autotune.facts)
        # Exit handlers run in the opposite order: the world must be left before an MPI that it has loaded ends.
        atexit.unregister(self._leave)
        atexit.register(self._leave)

    def _finder(self, environ: Mapping[str, str], generation: int) -> FindPlace:
        """Return the finder of this process's place: the rendezvous server, where the environment names or named it."""
        client = find_client(environ, self.rendezvous)
        if client is None and identify(environ) is None:
            client = self.rendezvous
        if self.rendezvous is not None and self.rendezvous is not client:
            self.rendezvous.done()
        self.rendezvous = client
        return partial(find_place, environ, generation) if client is None else client.next_place

    @property
    def autotune(self) -> Autotune | None:
        """The tuner of the world; None where there is no world."""
        return self._autotune

    @property
    def is_tuning_finished(self) -> bool:
        """True if no trial runs: the decision is at most watched, or there is no tuner, or no world.

        Also true under a tuner that was not asked for: no program waits for it.
        """
        world = self._world
        if world is None or not world.settings.autotune or world.settings.is_unasked:
            return True
        return world.engine.is_tuning_finished()

    def shutdown(self) -> None:
        """Leave the world; returns at once where there is none, and in a forked child."""
        world, autotune, sets = self._world, self._autotune, self._sets
        if world is None or autotune is None or os.getpid() != self._pid:
            return
        self._tell_observers(None)
        metrics, self._metrics = self._metrics, None
        self._world = self._autotune = self._sets = None
        self._is_lent = False
        if metrics is not None:
            metrics.close()
        autotune.stop()
        if sets is not None:
            sets.close()
        world.shutdown()

    def _leave(self) -> None:
        """Leave the world, at the end of the interpreter; the exit code, known after it, is the job's outcome."""
        if os.getpid() == self._pid:
            for world in list(self._others.values()):
                self.leave(world)
        self.shutdown()
        if self.rendezvous is not None and os.getpid() == self._pid:
            handed_over = self.rendezvous.detach()
            if handed_over is not None:
                _engine.tell_exit_code(*handed_over)

    def _tell_observers(self, world: World | None) -> None:
        for observer in self._observers:
            observer(world)

    def forget_place(self) -> None:
        """Leave the world and the job, in a platform's worker that lives on: its next task may be no rank at all."""
        self.shutdown()
        client, self.rendezvous = self.rendezvous, None
        if client is not None and client.is_unfinished:
            client.close()
        elif client is not None:
            client.done()
        self._ownership.release()
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _after_fork_in_child(self) -> None:
        """Close the descriptors in the child: the parent's death is seen and frees its place although children live."""
        self._ownership.release()
        if self._listener is not None:
            self._listener.close()
        if self.rendezvous is not None:
            self.rendezvous.close()
            self.rendezvous = None
        parts = [] if self._sets is None else self._sets.worlds()
        for world in (*parts, *self.worlds):
            world.engine.abandon_after_fork()
        if self._metrics is not None:
            self._metrics.abandon_after_fork()


def _serve_metrics(world: World, facts: TunerFacts) -> MetricsServer | None:
    """Serve metrics if that is asked for; see `start_exporter`."""
    if world.settings.metrics_address is None:
        return None
    try:
        from ringtune.metrics.exporter import start_exporter  # noqa: PLC0415  (prometheus-client is for jobs that are watched)

        return start_exporter(world, facts)
    except Exception as error:  # noqa: BLE001  (metrics never fail training)
        world.console.warning(f"no metrics: {error!r}; training goes on without")
        return None


SESSION = Session()
