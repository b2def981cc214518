# SPDX-License-Identifier: Apache-2.0
"""The one holder of this process's world, for the module-level API that Horovod's users know.

`SESSION` is the only object of the package that changes: everything else gets its world handed in.
"""

import atexit
import os
from collections.abc import Sequence

from ringtune.errors import ConfigError, ForkedProcessError

from .bootstrap import environment
from .bootstrap.ownership import Ownership
from .cache_files import user_cache_folder
from .engine_tuning import Autotune
from .metrics.server import MetricsServer
from .metrics.tuner_facts import TunerFacts
from .set_registry import ProcessSet, SetRegistry
from .standard_streams import occupy_standard_streams
from .tuning.callbacks import RegisteredCallbacks
from .world import World, join_world


class Session:
    """Holds the world between `init()` and `shutdown()`. Changed from the main thread; reading is safe anywhere.

    Attributes:
        callbacks: Told of the tuner's work; they outlive a world.
        global_process_set: The set of all ranks; usable while there is a world.
    """

    def __init__(self) -> None:
        self.callbacks = RegisteredCallbacks()
        self.global_process_set = ProcessSet()
        self._world: World | None = None
        self._sets: SetRegistry | None = None
        self._autotune: Autotune | None = None
        self._metrics: MetricsServer | None = None
        self._generation = 0
        self._ownership = Ownership()
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._after_fork_in_child)
        atexit.register(self.shutdown)

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

    def require_sets(self) -> SetRegistry:
        """Return the process sets of the world.

        Raises:
            ConfigError: If `init()` was not called.
        """
        if self._sets is None:
            raise ConfigError("ringtune is not initialized; call init() first")
        return self._sets

    def init(self, process_sets: Sequence[ProcessSet | Sequence[int]] = ()) -> None:
        """Join the world; does nothing while there is one.

        Args:
            process_sets: Sets to add at once, or their global ranks; the same on all ranks.

        Raises:
            ForkedProcessError: In a forked child of a process that has a world.
            ConfigError: See `Ownership.claim`, `join_world` and `SetRegistry.add`.
            CollectiveTimeout: See `join_world`.
            PeerLostError: See `join_world`.
        """
        if self._world is not None:
            if os.getpid() != self._pid:
                raise ForkedProcessError(
                    f"process {os.getpid()} was forked from rank {self._world.rank} (pid {self._pid}); a forked child "
                    "cannot join the world"
                )
            return
        occupy_standard_streams()
        environ = self._ownership.claim(environment())
        generation, self._generation = self._generation, self._generation + 1
        self._pid = os.getpid()
        autotune = Autotune(user_cache_folder(environ), self.callbacks)
        try:
            world = join_world(environ, generation, autotune.prepare)
        except BaseException:
            autotune.stop()
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
        autotune.start(world)
        self._metrics = _serve_metrics(world, autotune.facts)
        # Exit handlers run in the opposite order: the world must be left before an MPI that it has loaded ends.
        atexit.unregister(self.shutdown)
        atexit.register(self.shutdown)

    @property
    def is_tuning_finished(self) -> bool:
        """True if nothing is tried: what was decided is at most watched, or there is no tuner, or no world."""
        world = self._world
        return world is None or not world.settings.autotune or world.engine.is_tuning_finished()

    def shutdown(self) -> None:
        """Leave the world; does nothing where there is none, and in a forked child."""
        world, autotune, sets = self._world, self._autotune, self._sets
        if world is None or autotune is None or os.getpid() != self._pid:
            return
        metrics, self._metrics = self._metrics, None
        self._world = self._autotune = self._sets = None
        if metrics is not None:
            metrics.close()
        autotune.stop()
        if sets is not None:
            sets.close()
        world.shutdown()

    def _after_fork_in_child(self) -> None:
        """Close the descriptors in the child: the parent's death is seen and frees its place although children live."""
        self._ownership.abandon_after_fork()
        parts = [] if self._sets is None else self._sets.worlds()
        for world in (*parts, *([] if self._world is None else [self._world])):
            world.engine.abandon_after_fork()
        if self._metrics is not None:
            self._metrics.abandon_after_fork()


def _serve_metrics(world: World, facts: TunerFacts) -> MetricsServer | None:
    """Serve metrics if that is asked for; see `start_exporter`."""
    if world.settings.metrics_address is None:
        return None
    try:
        from .metrics.exporter import start_exporter  # noqa: PLC0415  (prometheus-client is for jobs that are watched)

        return start_exporter(world, facts)
    except Exception as error:  # noqa: BLE001  (metrics never fail training)
        world.console.warning(f"no metrics: {error!r}; training goes on without")
        return None


SESSION = Session()
