# SPDX-License-Identifier: Apache-2.0
"""One membership in a world: the engine, the settings that hold, and this rank's place.

`join_world` is the whole way in: find the place, read the settings, meet the other ranks, start the engine.
"""

import errno
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ringtune import _engine
from ringtune.errors import ConfigError, RingtuneError
from ringtune.identity.fingerprints import machine_facts
from ringtune.identity.gpu_facts import find_gpus, find_nccl
from ringtune.identity.gradient_set import GradientSet
from ringtune.meeting.bootstrap.tls_variables import read_tls
from ringtune.meeting.mpi_transport import find_plugin, open_communicator
from ringtune.meeting.rendezvous import Agreement, Layout, Meeting, Offer, Place, open_meeting
from ringtune.meeting.rendezvous.address import bound_address
from ringtune.meeting.rendezvous.tls import CLEAR, Tls
from ringtune.settings.settings import SECRET_NAMES, Settings, find_notes
from ringtune.system.console import Console
from ringtune.system.standard_streams import occupy_standard_streams
from ringtune.tuner.space.parameters import SKEW
from ringtune.world.algorithm_tables.choice import TableChoice
from ringtune.world.algorithm_tables.store import TableStore
from ringtune.world.algorithm_tables.table import CallTime
from ringtune.world.engine_config import engine_config
from ringtune.world.handles import HandleTable
from ringtune.world.step_rounds import StepRounds

INIT_LIMIT_S = 120.0  # the meeting's limit, or RINGTUNE_TIMEOUT_S where that is shorter
_FALLBACK_LIMIT_S = 10.0  # for a rank whose settings cannot be read, so that it can still tell the others

Prepare = Callable[[Settings], None]
FindPlace = Callable[[float], Place]


@dataclass(frozen=True)
class _Part:
    """A world's ranks inside the world that the launcher started, which is also MPI's where there is one."""

    ranks: tuple[int, ...]
    size_of_whole: int


@dataclass
class World:
    """This rank's membership. Engine calls are thread-safe; `shutdown` belongs to the main thread.

    Attributes:
        engine: The native engine.
        settings: Settings that hold for all ranks, fitted to the layout.
        layout: Hosts of the ranks.
        tables: Store of measured algorithm tables.
        console: Console for warnings.
        job_key: Secret of the ranks; empty in a world of one.
        tls: Protection of the connections between ranks.
        interface: This host's address towards rank 0.
        machines: On rank 0, each machine's facts about itself; empty elsewhere.
        calls: On rank 0, the allreduces timed when the algorithm table was measured; empty where they are not known.
        handles: Objects that asynchronous operations of this rank must keep alive.
        gradient_set: The gradients that a step submits.
        step_ends: Steps that each GPU has still to pass, as the front end that marks them keeps them.
        step_rounds: Optimizers that have stepped since the last training step ended.
    """

    engine: _engine.Engine
    settings: Settings
    layout: Layout
    tables: TableStore
    console: Console
    job_key: bytes = field(default=b"", repr=False)
    tls: Tls = CLEAR
    interface: str = ""
    machines: tuple[Mapping[str, Any], ...] = ()
    calls: tuple[CallTime, ...] = ()
    handles: HandleTable = field(default_factory=HandleTable)
    gradient_set: GradientSet = field(default_factory=GradientSet)
    step_ends: dict[int, Any] = field(default_factory=dict)
    step_rounds: StepRounds = field(default_factory=StepRounds)

    @property
    def rank(self) -> int:
        """This process."""
        return self.layout.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.layout.world_size

    @property
    def local_rank(self) -> int:
        """This process among the ranks of its host."""
        return self.layout.local_rank

    @property
    def local_size(self) -> int:
        """Number of ranks on this host."""
        return self.layout.local_size

    @property
    def cross_rank(self) -> int:
        """This process among those with its local rank, on the hosts that have one."""
        return self.layout.cross_rank

    @property
    def cross_size(self) -> int:
        """Number of ranks with this one's local rank: of hosts, where all have as many ranks."""
        return self.layout.cross_size

    @property
    def carrier(self) -> str:
        """Transport between the ranks that are farthest apart: `shm`, `tcp`, `tls` or `mpi`."""
        return _carrier(self.layout, self.settings, self.tls)

    def shutdown(self) -> None:
        """Leave the world; idempotent. Peers that still need this rank get `PeerLostError`."""
        self.engine.shutdown()
        self.handles.clear()


def join_world(
    environ: Mapping[str, str],
    find_place: FindPlace,
    prepare: Prepare,
    listener: socket.socket | None = None,
    *,
    is_first: bool,
) -> World:
    """Join the world that the environment describes.

    Args:
        environ: The environment.
        find_place: Returns this process's place, within a time limit in seconds.
        prepare: Called on rank 0 with its settings before the meeting; an error that it raises stops every rank.
        listener: Socket that is open already where rank 0 meets the others. The meeting takes it, or it is closed if
            the environment names another address; the caller closes it if this call raises.
        is_first: Whether this process has not initialised before: later initialisations omit messages already printed.

    Raises:
        ConfigError: If a setting or the launch is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    algorithms = _engine.allreduce_algorithms()
    settings: Settings | None = None
    tls, failure = _read_tls(environ)
    try:
        settings = Settings.from_environment(environ, algorithms)
    except ConfigError as error:  # the other ranks must hear of it before it is raised
        failure = error
    limit_s = _FALLBACK_LIMIT_S if settings is None else min(INIT_LIMIT_S, settings.timeout_s)
    with _shortage_explained():
        try:
            place = find_place(limit_s)
        except RingtuneError:
            if failure is not None:
                raise failure from None
            raise
        if settings is not None:
            failure = _prepare(prepare, settings, place, failure)
            for note in find_notes(environ, algorithms) if is_first and place.rank == 0 else ():
                Console(place.rank, settings.log_level).warning(note)
        offer = Offer({}, {}, failure=failure) if settings is None else replace(public_offer(settings), failure=failure)
        return _meet(replace(_at_listener(place, listener), tls=tls), offer, limit_s, TableStore.of_user(environ))


def _at_listener(place: Place, listener: socket.socket | None) -> Place:
    """Return the place with a socket that is open already, if it listens where this rank meets the others."""
    if listener is None:
        return place
    if place.rank == 0 and place.listener is None and place.address == bound_address(listener):
        return replace(place, listener=listener)
    listener.close()
    return place


def join_part(world: World, place: Place, ranks: Sequence[int]) -> World:
    """Join a world of some of the ranks of another one, under the same settings but without a tuner.

    Args:
        world: The other world.
        place: This rank's, in the new world.
        ranks: The new world's, as the other world numbers them.

    Raises:
        ConfigError: If the ranks could not meet, here or elsewhere.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    part = _Part(tuple(ranks), world.size)
    with _shortage_explained():
        limit_s = min(INIT_LIMIT_S, world.settings.timeout_s)
        offer = public_offer(part_settings(world.settings, world.layout, ranks))
        return _meet(replace(place, tls=world.tls), offer, limit_s, world.tables, part)


def part_settings(settings: Settings, layout: Layout, ranks: Sequence[int]) -> Settings:
    """Return the settings of a world of some ranks: those that share a host's memory need no MPI, though others do.

    Args:
        settings: Settings of the whole world.
        layout: Likewise.
        ranks: Ranks of the new world, as the whole one numbers them.
    """
    is_one_host = len({layout.hosts[rank] for rank in ranks}) == 1
    if settings.transport == "mpi" and is_one_host:
        return Settings.from_given({**settings.given, "RINGTUNE_TRANSPORT": "auto"})
    return settings


def public_offer(settings: Settings) -> Offer:
    """Return this rank's settings for the others; secrets stay on the rank that was given them."""
    given, effective = (
        {name: value for name, value in values.items() if name not in SECRET_NAMES}
        for values in (settings.given, settings.effective())
    )
    lanes, tuned_lanes = (0 if connections == 1 else connections for connections in settings.connections())
    return Offer(
        given,
        effective,
        settings.transport,
        machine_facts(find_gpus()),
        lanes=lanes,
        tuned_lanes=tuned_lanes,
        interfaces=settings.interfaces,
    )


def _read_tls(environ: Mapping[str, str]) -> tuple[Tls, RingtuneError | None]:
    """Return this rank's TLS, and the error, which the others raise too, if it cannot have the one that it should."""
    try:
        return read_tls(environ), None
    except ConfigError as error:
        return CLEAR, error


def _prepare(prepare: Prepare, settings: Settings, place: Place, failure: RingtuneError | None) -> RingtuneError | None:
    """Return the failure that keeps this rank from starting, which the others raise too; a known one first."""
    try:
        if failure is not None:
            return failure
        if place.rank == 0:
            prepare(settings)
        if settings.transport == "mpi" and place.world_size > 1:
            find_plugin(place.rank, place.world_size)
    except RingtuneError as error:
        return error
    return None


def _meet(place: Place, offer: Offer, limit_s: float, tables: TableStore, part: _Part | None = None) -> World:
    occupy_standard_streams()
    meeting = open_meeting(place, offer, limit_s, _engine.create_segment)
    try:
        return _join_meeting(meeting, place, tables, part)
    finally:
        meeting.close()


def _join_meeting(meeting: Meeting, place: Place, tables: TableStore, part: _Part | None) -> World:
    agreement = meeting.agree()
    layout = Layout(place.rank, agreement.hosts)
    settings, notes = Settings.from_given(agreement.given).fitted(layout.ranks_per_host)
    console = Console(place.rank, settings.log_level)
    try:
        whole = _Part(tuple(range(place.world_size)), place.world_size)
        engine = _start_engine(layout, settings, agreement, part or whole, place.tls)
        choice = TableChoice(engine, settings, layout.hosts, tables, console)
        with _shut_down_on_failure(engine):
            if place.rank == 0:
                choice.load(agreement.host_facts, _carrier(layout, settings, place.tls), is_whole=part is None)
            if part is None and settings.timeline is not None:  # the engine puts the rank into the file's name
                engine.start_timeline(settings.timeline, mark_cycles=settings.timeline_marks_cycles)
    except RingtuneError as error:
        meeting.conclude(error)
        raise
    with _shut_down_on_failure(engine):
        meeting.conclude(None)
        if part is None:
            choice.measure()
        _measure_links(engine, settings, place.rank)
    if place.rank == 0 and part is None:
        for note in (*agreement.notes, *notes, *_unprotected(layout, settings, place.tls)):
            console.warning(note)
    return World(
        engine=engine,
        settings=settings,
        layout=layout,
        tables=tables,
        console=console,
        job_key=place.job_key,
        tls=place.tls,
        interface=agreement.interface,
        machines=agreement.host_facts,
        calls=choice.calls,
    )


def _start_engine(layout: Layout, settings: Settings, agreement: Agreement, part: _Part, tls: Tls) -> _engine.Engine:
    try:
        mpi_plugin, mpi_communicator = _mpi_data_plane(layout, settings, part)
    except BaseException:
        agreement.close()
        raise
    return _engine.Engine(
        rank=layout.rank,
        world_size=layout.world_size,
        hosts=list(layout.hosts),
        segment_fd=agreement.segment_fd,
        pidfds=list(agreement.pidfds),
        pids=list(agreement.pids),
        control_fds=list(agreement.control_fds),
        data_fds=list(agreement.data_fds),
        mpi_plugin=mpi_plugin,
        mpi_communicator=mpi_communicator,
        config=engine_config(settings.baseline),
        stall_warn_s=settings.stall_warn_s,
        timeout_s=settings.timeout_s,
        log_level=settings.log_level,
        gpu_operations=_gpu_operations(layout, settings, tls),
        nccl_library=find_nccl(),
        tls=dict(agreement.tls),
    )


def _unprotected(layout: Layout, settings: Settings, tls: Tls) -> tuple[str, ...]:
    """Return notes for the user on data that leave a host beside TLS, a sentence each."""
    if not tls.is_on or layout.host_count == 1:
        return ()
    found = []
    if settings.transport == "mpi":
        found.append("RINGTUNE_TRANSPORT=mpi: MPI carries the data between hosts, which TLS does not protect there")
    if settings.gpu_operations == "nccl":
        found.append("RINGTUNE_GPU_OPERATIONS=nccl: NCCL carries GPUs' tensors, which TLS does not protect there")
    return tuple(found)


def _gpu_operations(layout: Layout, settings: Settings, tls: Tls) -> str:
    """Return how tensors of GPUs are reduced: between hosts with TLS by NCCL only where the user has asked for NCCL."""
    is_left_open = settings.gpu_operations == "auto"
    return "host" if is_left_open and tls.is_on and layout.host_count > 1 else settings.gpu_operations


def _carrier(layout: Layout, settings: Settings, tls: Tls) -> str:
    if layout.host_count == 1:
        return "shm"
    if settings.transport == "mpi":
        return "mpi"
    return "tls" if tls.is_on else "tcp"


def _mpi_data_plane(layout: Layout, settings: Settings, part: _Part) -> tuple[str, int]:
    """Return the MPI transport's library and the handle of a communicator of these ranks; ("", 0) without MPI."""
    if settings.transport != "mpi" or layout.host_count == 1:
        return "", 0
    plugin = find_plugin(part.ranks[layout.rank], part.size_of_whole)
    return plugin, open_communicator(part.ranks, min(INIT_LIMIT_S, settings.timeout_s))


def _measure_links(engine: _engine.Engine, settings: Settings, rank: int) -> None:
    """Have the links measured before the first collective, if shares are to follow from their rates; on rank 0."""
    if rank == 0 and settings.baseline[SKEW]:
        engine.measure_host_rates()


@contextmanager
def _shut_down_on_failure(engine: _engine.Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.shutdown()
        raise


@contextmanager
def _shortage_explained() -> Iterator[None]:
    """Turn the lack of file descriptors, wherever it shows, into an error that names the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.EMFILE, errno.ENFILE}:
            raise
        raise ConfigError(
            f"no file descriptor is left for the connections to the other ranks ({error.strerror}); raise the limit of "
            "open files (ulimit -n)"
        ) from error
