# SPDX-License-Identifier: Apache-2.0
"""One membership in a world: the engine, the settings that hold, and this rank's place.

`join_world` is the whole way in: find the place, read the settings, meet the other ranks, start the engine.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ringtune import _engine
from ringtune.errors import ConfigError, RingtuneError

from .bootstrap import find_place
from .console import Console
from .engine_config import engine_config
from .gradient_set import GradientSet
from .handles import HandleTable
from .rendezvous import Agreement, Meeting, Offer, Place, open_meeting
from .settings import Settings, find_notes

INIT_LIMIT_S = 120.0  # the meeting's limit, or RINGTUNE_TIMEOUT_S where that is shorter
_FALLBACK_LIMIT_S = 10.0  # for a rank whose settings cannot be read, so that it can still tell the others

Prepare = Callable[[Settings], None]


@dataclass
class World:
    """This rank's membership. Engine calls are thread-safe; `shutdown` belongs to the main thread.

    Attributes:
        engine: The native engine.
        settings: What holds for all ranks.
        rank: This process.
        size: Number of ranks.
        local_rank: This process among the ranks of its host.
        local_size: Number of ranks on this host.
        handles: What asynchronous operations of this rank must keep alive.
        console: Where warnings go.
        gradient_set: The gradients that a step submits.
    """

    engine: _engine.Engine
    settings: Settings
    rank: int
    size: int
    local_rank: int
    local_size: int
    console: Console
    handles: HandleTable = field(default_factory=HandleTable)
    gradient_set: GradientSet = field(default_factory=GradientSet)

    def shutdown(self) -> None:
        """Leave the world; idempotent. Peers that still need this rank get `PeerLostError`."""
        self.engine.shutdown()
        self.handles.clear()


def join_world(environ: Mapping[str, str], generation: int, prepare: Prepare) -> World:
    """Join the world that the environment describes.

    Args:
        environ: The environment.
        generation: How often this process has initialised before.
        prepare: Called on rank 0 with its settings before the meeting; what it raises stops every rank.

    Raises:
        ConfigError: If a setting or the launch is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    algorithms = _engine.allreduce_algorithms()
    settings: Settings | None = None
    failure: RingtuneError | None = None
    try:
        settings = Settings.from_environment(environ, algorithms)
    except ConfigError as error:  # the other ranks must hear of it before it is raised
        failure = error
    limit_s = _FALLBACK_LIMIT_S if settings is None else min(INIT_LIMIT_S, settings.timeout_s)
    try:
        place = find_place(environ, generation, limit_s)
    except RingtuneError:
        if failure is not None:
            raise failure from None
        raise
    if settings is not None and place.rank == 0:
        failure = _prepare(prepare, settings)
        for note in find_notes(environ, algorithms):
            Console(place.rank, settings.log_level).warning(note)
    offer = Offer({}, {}, failure) if settings is None else Offer(settings.given, settings.effective(), failure)
    meeting = open_meeting(place, offer, limit_s, _engine.create_segment)
    try:
        return _meet(meeting, place)
    finally:
        meeting.close()


def _prepare(prepare: Prepare, settings: Settings) -> RingtuneError | None:
    try:
        prepare(settings)
    except RingtuneError as error:
        return error
    return None


def _meet(meeting: Meeting, place: Place) -> World:
    agreement = meeting.agree()
    settings = Settings.from_given(agreement.given)
    try:
        engine = _start_engine(place, settings, agreement)
    except RingtuneError as error:
        meeting.conclude(error)
        raise
    try:
        meeting.conclude(None)
    except BaseException:
        engine.shutdown()
        raise
    console = Console(place.rank, settings.log_level)
    return World(
        engine=engine,
        settings=settings,
        rank=place.rank,
        size=place.world_size,
        local_rank=place.rank,  # all ranks share one host
        local_size=place.world_size,
        console=console,
    )


def _start_engine(place: Place, settings: Settings, agreement: Agreement) -> _engine.Engine:
    return _engine.Engine(
        rank=place.rank,
        world_size=place.world_size,
        segment_fd=agreement.segment_fd,
        pidfds=list(agreement.pidfds),
        pids=list(agreement.pids),
        config=engine_config(settings.baseline),
        stall_warn_s=settings.stall_warn_s,
        timeout_s=settings.timeout_s,
        log_level=settings.log_level,
    )
