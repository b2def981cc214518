# SPDX-License-Identifier: Apache-2.0
"""The one holder of this process's world, for the module-level API that Horovod's users know.

`SESSION` is the only object of the package that changes: everything else gets its world handed in.
"""

import atexit
import os

from ringtune.errors import ConfigError, ForkedProcessError

from .autotune import Autotune
from .bootstrap import environment
from .world import World, join_world


class Session:
    """Holds the world between `init()` and `shutdown()`. Changed from the main thread; reading is safe anywhere."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._autotune: Autotune | None = None
        self._generation = 0
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._after_fork_in_child)
        atexit.register(self.shutdown)

    @property
    def is_initialized(self) -> bool:
        """Whether there is a world."""
        return self._world is not None

    def require(self) -> World:
        """Return the world.

        Raises:
            ConfigError: If `init()` was not called.
        """
        if self._world is None:
            raise ConfigError("ringtune is not initialized; call init() first")
        return self._world

    def init(self) -> None:
        """Join the world; does nothing while there is one.

        Raises:
            ForkedProcessError: In a forked child of a process that has a world.
            ConfigError: See `join_world`.
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
        generation, self._generation = self._generation, self._generation + 1
        self._pid = os.getpid()
        autotune = Autotune()
        try:
            world = join_world(environment(), generation, autotune.prepare)
        except BaseException:
            autotune.stop()
            raise
        self._world, self._autotune = world, autotune
        autotune.start(world)

    @property
    def is_tuning_finished(self) -> bool:
        """Whether no tuning goes on in this process."""
        return self._autotune is None or self._autotune.is_finished

    def shutdown(self) -> None:
        """Leave the world; does nothing where there is none, and in a forked child."""
        world, autotune = self._world, self._autotune
        if world is None or autotune is None or os.getpid() != self._pid:
            return
        self._world = self._autotune = None
        autotune.stop()
        world.shutdown()

    def _after_fork_in_child(self) -> None:
        """Close the engine's descriptors in the child, so that the parent's death is seen although children live."""
        if self._world is not None:
            self._world.engine.abandon_after_fork()


SESSION = Session()
