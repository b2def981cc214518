# SPDX-License-Identifier: Apache-2.0
"""Gives an engine its algorithm table when a rank joins a world: a kept one, a given one, or one measured now.

Rank 0's engine alone has a table, for rank 0 chooses for all. Measuring is done by all ranks together, and none may
leave it on its own: until rank 0 ends it, the others wait.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtune import _engine
from ringtune.errors import ConfigError, EngineError
from ringtune.identity.fingerprints import hardware_facts, hardware_fingerprint, layout_of
from ringtune.settings.settings import Settings
from ringtune.system.console import Console
from ringtune.system.usable_cores import usable_cores
from ringtune.tuner.space.parameters import AUTO, goes_by_host
from ringtune.version import __version__

from .between_hosts import HostsToMeasure, measure_between_hosts
from .measurement import LIMIT_S, Measured, measure_table, plan_on_one_host, sizes_for
from .store import TableFileError, TableStore, read_table
from .table import HIERARCHICAL, RING, AlgorithmTable, CallTime, TableKey, TableRow, describe

MEASURED = "auto"
COMPILED_IN = "default"


class TableChoice:
    """One rank's way to the table, between its engine's start and the world's first collective."""

    def __init__(
        self,
        engine: _engine.Engine,
        settings: Settings,
        hosts: Sequence[int],
        store: TableStore,
        console: Console,
    ) -> None:
        """Take the engine, its settings and the store of tables.

        Args:
            engine: This rank's.
            settings: Settings that hold for all ranks, fitted to the layout.
            hosts: Each rank's host.
            store: Store of measured tables.
            console: Console of this rank.
        """
        self._engine = engine
        self._settings = settings
        self._hosts = list(hosts)
        self._ranks_per_host = [self._hosts.count(host) for host in range(max(hosts) + 1)]
        self._store = store
        self._console = console
        self._key: TableKey | None = None
        self._is_set = False
        self._calls: tuple[CallTime, ...] = ()

    @property
    def calls(self) -> tuple[CallTime, ...]:
        """Durations of allreduces while the table was measured, on rank 0; empty if there was no measurement."""
        return self._calls

    def load(self, machines: Sequence[Mapping[str, Any]], carrier: str, *, is_whole: bool) -> None:
        """Set the table that is kept for this job, or the one of the given file; on rank 0.

        Args:
            machines: Facts that each machine declares about itself.
            carrier: Transport of the data: `shm`, `tcp`, `tls` or `mpi`.
            is_whole: Whether these are all ranks. A part of them has a layout of its own, and takes the table kept for
                it, if there is one, without a message.

        Raises:
            ConfigError: If the given file has no table, or one that cannot serve this job.
        """
        self._key = self._make_key(machines, carrier)
        source = self._settings.algorithm_table
        note = None
        if source not in {MEASURED, COMPILED_IN}:
            note = self._load_given(Path(source))
        elif source == MEASURED and self._has_choice():
            note = self._load_kept(self._key)
        if is_whole and note is not None:
            self._console.warning(note)

    def measure(self) -> None:
        """Measure a table if there is none and something to choose. All ranks call it, after rank 0 has loaded.

        Raises:
            EngineError: If a rank was lost meanwhile.
        """
        if self._settings.algorithm_table != MEASURED or not self._has_choice():
            return  # alike on all ranks
        if self._key is None:
            self._engine.follow_timing()
            return
        table: AlgorithmTable | None = None
        try:
            table = None if self._is_set else self._measured(self._key)
        except EngineError:
            raise  # every rank knows
        except BaseException:
            self._engine.end_timing()
            raise
        self._engine.end_timing()
        if table is not None:
            self._keep(self._key, table)

    def _make_key(self, machines: Sequence[Mapping[str, Any]], carrier: str) -> TableKey:
        facts = hardware_facts(machines, carrier, is_on_gpus=False)  # the host's algorithms, in the host's memory
        return TableKey(
            version=__version__,
            compiled_in=describe(self._compiled_in()),
            hardware=hardware_fingerprint(facts, self._settings.hardware),
            usable_cores=usable_cores(),
            layout=tuple(layout_of(self._ranks_per_host)),
            carrier=carrier,
            between_hosts=self._between_hosts(),
        )

    def _compiled_in(self) -> list[TableRow]:
        return [TableRow(*row) for row in _engine.default_algorithm_table(self._hosts)]

    def _between_hosts(self) -> str | None:
        if len(self._ranks_per_host) == 1:
            return None
        return HIERARCHICAL if goes_by_host(self._settings.baseline, self._ranks_per_host) else RING

    def _has_choice(self) -> bool:
        """Return whether there are several ranks, and something is at `auto`."""
        knobs = ["chunk_bytes", "allreduce_algorithm"]
        return len(self._hosts) > 1 and any(self._settings.baseline[knob] == AUTO for knob in knobs)

    def _load_given(self, path: Path) -> str | None:
        """Return why the table cannot be used with this many ranks, if it cannot."""
        layout = layout_of(self._ranks_per_host)
        try:
            table = read_table(path)
            if table.key.get("layout") == layout:
                self._engine.set_algorithm_table(table.rows)
                self._calls = table.calls
                return None
        except (TableFileError, ConfigError) as error:
            raise ConfigError(
                f"RINGTUNE_ALGORITHM_TABLE={path} cannot be used: {error}; name the file of a table for this job, or "
                "set auto or default"
            ) from error
        return (
            f"the algorithm table in {path} is for {table.key.get('layout')} ranks per host; this world has {layout}, "
            "and the compiled-in table is used"
        )

    def _load_kept(self, key: TableKey) -> str | None:
        """Load the kept table; return the reason if it cannot be used."""
        path = self._store.path(key)
        try:
            table = self._store.load(key)
            if table is None:
                return None
            if table.is_of_busier_times(_load()):
                self._console.info(f"the algorithm table in {path} is of busier times, at a load of {table.load:g}")
                return None
            self._engine.set_algorithm_table(table.rows)
        except (TableFileError, ConfigError) as error:
            return f"the algorithm table in {path} is measured anew: {error}"
        self._is_set = True
        self._calls = table.calls
        self._console.info(f"algorithm table of {path}: {describe(table.rows)}")
        return None

    def _measured(self, key: TableKey) -> AlgorithmTable | None:
        """Measure, and set the new table; None where the ranks have no room for the messages."""
        self._console.info(f"measuring which algorithm and chunk are the fastest here, for at most {LIMIT_S:g} s")
        begin_s, load = time.monotonic(), _load()
        max_bytes = sizes_for(self._ranks_per_host)[-1]
        if not self._engine.begin_timing(max_bytes):
            self._console.warning(
                f"there is no memory to measure allreduces with ({max_bytes} bytes on each rank); the compiled-in "
                "algorithm table is used"
            )
            return None
        limit_s = min(LIMIT_S, self._settings.timeout_s / 4)  # a call must not reach the limit that ends the job
        rows, calls = self._measure(key.between_hosts, limit_s - (time.monotonic() - begin_s))
        self._engine.set_algorithm_table(rows)
        self._calls = calls
        return AlgorithmTable(key.to_json(), rows, round(time.monotonic() - begin_s, 3), round(load, 1), calls)

    def _measure(self, between_hosts: str | None, limit_s: float) -> Measured:
        names = _engine.choices_of_auto(self._hosts, bool(self._settings.baseline["hierarchical_allreduce"]))
        if between_hosts is None:
            return measure_table(self._engine, plan_on_one_host(self._compiled_in(), names, len(self._hosts)), limit_s)
        hosts = HostsToMeasure(tuple(self._compiled_in()), tuple(names), tuple(self._ranks_per_host), between_hosts)
        return measure_between_hosts(self._engine, hosts, limit_s)

    def _keep(self, key: TableKey, table: AlgorithmTable) -> None:
        took = f"algorithm table measured in {table.measured_s:.1f} s: {describe(table.rows)}"
        try:
            path = self._store.save(key, table)
        except OSError as error:
            self._console.warning(
                f"the algorithm table cannot be kept in {self._store.path(key).parent} ({error.strerror}), so that "
                f"every start measures it again ({table.measured_s:.1f} s); make that folder writable, set "
                "XDG_CACHE_HOME, or set RINGTUNE_ALGORITHM_TABLE=default"
            )
            self._console.info(took)
            return
        self._console.info(f"{took}; kept in {path}")


def _load() -> float:
    """Return how many programs want a core of this machine, per core, over the last minute."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # the system does not tell
        return 0.0
