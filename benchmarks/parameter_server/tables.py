# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/parameter_servers.md, made from the raw rows in `results/`.

`python -m benchmarks.parameter_server.tables` rewrites them between their marks. A test fails when a table and its rows
disagree.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .claims import Cell, Claims, alone_cell, fresh_cell, stale_cell
from .estimate import Setting, lockstep_ms, own_ms, step_ms
from .plan import (
    HIGH_RATE,
    LEARNING_RATE,
    LINKS,
    PLACES,
    SERVERS,
    SINGLE_WAYS,
    SLOW_WORKERS,
    SLOWDOWN,
    STALE_WORKERS,
    WAYS,
    WITNESSED,
    WORKERS,
)
from .rows import RUNS, Row, read_rows
from .trial import ASYNC, DDP, ONE_HOST, RINGTUNE, SYNC, TENSORFLOW

PAGE = Path(__file__).parents[2] / "docs" / "parameter_servers.md"
MARKED = re.compile(r"<!-- table: (?P<name>[\w ,]+) -->\n.*?<!-- end of table -->", re.DOTALL)
NAMES: Mapping[str, str] = {
    SYNC: "synchronous",
    ASYNC: "asynchronous",
    DDP: "DDP over Gloo",
    RINGTUNE: "ringtune",
    TENSORFLOW: "TensorFlow, asynchronous",
}
PLACE_NAMES: Mapping[str, str] = {ONE_HOST: "one host", "1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
LINK = LINKS[0]
QUIET_LOAD = 0.5
"""Load average above which the machine had other work."""
MANY = (8, 16, 32, 64)
"""Numbers of workers of the estimate."""
Lines = list[list[str]]


class Tables:
    """All tables, by name."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Take the rows."""
        self._claims = Claims(rows)
        self._places = [place for place in PLACES if any(row.place == place for row in rows)]
        self._workers = [count for count in WORKERS if any(row.workers == count for row in rows)]
        self._has_witness = any(row.way == TENSORFLOW for row in rows)
        self._made: Mapping[str, Callable[[], Lines]] = {
            "extent": self._extent,
            **{f"rates, {PLACE_NAMES[place].partition('/')[0]}": self._rates_of(place) for place in self._places},
            "bytes": self._bytes,
            "link": self._link,
            "slow": self._slow,
            "slow loss": self._slow_loss,
            "stale": self._stale,
            "witness": self._witness,
            "check": self._check,
            "estimate": self._estimate,
        }

    def names(self) -> list[str]:
        """Return the names of the tables that these rows fill."""
        needed = {
            "bytes": LINK in self._places,
            "link": ONE_HOST in self._places and set(LINKS) <= set(self._places),
            "slow": self._can_slow,
            "slow loss": self._can_slow,
            "stale": ONE_HOST in self._places and STALE_WORKERS in self._workers,
            "witness": self._has_witness,
            "check": self._can_estimate,
            "estimate": self._can_estimate,
        }
        return [name for name in self._made if needed.get(name, True)]

    @property
    def _can_slow(self) -> bool:
        return {ONE_HOST, LINK} <= set(self._places) and SLOW_WORKERS in self._workers

    @property
    def _can_estimate(self) -> bool:
        return set(LINKS) <= set(self._places) and list(WORKERS) == self._workers

    def table(self, name: str) -> str:
        """Return a table in Markdown."""
        return _markdown(self._made[name]())

    def _extent(self) -> Lines:
        """Return what was run, and whether the machine had other work."""
        load = self._claims.load
        surroundings = f"quiet (load average {load:.1f})" if load < QUIET_LOAD else f"busy (load average {load:.1f})"
        places = ", ".join(PLACE_NAMES[place] for place in self._places)
        return [["rounds", "machine before the run", "places"], [str(self._claims.rounds), surroundings, places]]

    def _rates_of(self, place: str) -> Callable[[], Lines]:
        return lambda: self._rates(place)

    def _rates(self, place: str) -> Lines:
        """Return examples and steps per second, and the loss that a second takes away, by way and workers."""
        lines = [["", *(f"{count} workers" for count in self._workers)]]
        for way, servers in SINGLE_WAYS if place == ONE_HOST else WAYS:
            cells = []
            for workers in self._workers:
                cell = Cell(way, servers, workers, place)
                examples = self._claims.median(cell, lambda row: row.examples_per_s)
                steps = self._claims.median(cell, lambda row: row.examples_per_s / row.batch_size / row.workers)
                drop = self._claims.median(cell, lambda row: (row.curve[0][2] - row.final_loss) / row.seconds)
                cells.append(f"{examples:,.0f}; {steps:.1f}; {drop:.2f}")
            lines.append([name_of(way, servers), *cells])
        return lines

    def _bytes(self) -> Lines:
        """Return what the busiest link carries for one gradient of each worker."""
        lines = [["", *(f"{count} workers" for count in self._workers)]]
        for way, servers in WAYS:
            cells = []
            for workers in self._workers:
                rows = self._claims.of(Cell(way, servers, workers, LINK))
                carried = self._claims.median(Cell(way, servers, workers, LINK), lambda row: row.busiest_mb)
                cells.append(f"{carried:.2f} MB, {rows[0].busiest.rstrip('0123456789')}")
            lines.append([name_of(way, servers), *cells])
        return lines

    def _link(self) -> Lines:
        """Return step times of one server as multiples of other ways', by place and workers."""
        lines = [["one synchronous server ÷", *(f"{count} workers" for count in self._workers)]]
        for place in self._places:
            others = SINGLE_WAYS[2:] if place == ONE_HOST else ((SYNC, 2), *WAYS[4:])
            for way, servers in others:
                ratios = [
                    self._claims.step_ratio(Cell(SYNC, 1, workers, place), Cell(way, servers, workers, place))
                    for workers in self._workers
                ]
                lines.append([f"{name_of(way, servers)}, {PLACE_NAMES[place]}", *map(str, ratios)])
        return lines

    def _slow(self) -> Lines:
        """Return the examples per second with a slow worker, as a share of those without."""
        places = (ONE_HOST, LINK)
        lines = [["", *(PLACE_NAMES[place] for place in places)]]
        for way, servers in WAYS:
            shares = [
                str(self._claims.slowed(Cell(way, servers, SLOW_WORKERS, place)))
                if place == LINK or (way, servers) in SINGLE_WAYS
                else ""
                for place in places
            ]
            lines.append([name_of(way, servers), *shares])
        return lines

    def _slow_loss(self) -> Lines:
        """Return the loss after equal time, with a slow worker and without, and as a multiple of ringtune's."""
        head = [f"{PLACE_NAMES[place]}, {case}" for place in (ONE_HOST, LINK) for case in ("equal", "one slow")]
        seconds = self._claims.median(Cell(RINGTUNE, 0, SLOW_WORKERS, ONE_HOST), lambda row: row.seconds)
        lines = [[f"after {seconds:g} s", *head]]
        for way, servers in SINGLE_WAYS:
            cells = []
            for place in (ONE_HOST, LINK):
                for slowdown in (1.0, SLOWDOWN):
                    cell = Cell(way, servers, SLOW_WORKERS, place, slowdown)
                    text = f"{self._claims.median(cell, lambda row: row.final_loss):.3f}"
                    if way != RINGTUNE:
                        reference = Cell(RINGTUNE, 0, SLOW_WORKERS, place, slowdown)
                        text += f"; {self._claims.loss_at_equal_time(cell, reference)}"
                    cells.append(text)
            lines.append([name_of(way, servers), *cells])
        return lines

    def _stale(self) -> Lines:
        """Return losses after equally many gradients, as multiples."""
        claims = self._claims
        lines = [
            [
                "learning rate",
                "staleness",
                "asynchronous: gradients; loss",
                "asynchronous ÷ synchronous",
                "asynchronous ÷ alone",
                "synchronous ÷ alone",
            ]
        ]
        for rate in (LEARNING_RATE, HIGH_RATE):
            stale, fresh, alone = stale_cell(STALE_WORKERS, rate), fresh_cell(STALE_WORKERS, rate), alone_cell(rate)
            pairs = ((stale, fresh), (stale, alone), (fresh, alone))
            ratios = [str(claims.loss_at_equal_gradients(cell, reference)) for cell, reference in pairs]
            staleness = claims.median(stale, lambda row: row.staleness)
            reached = claims.median(stale, lambda row: row.loss_after(row.gradients, 1))
            gradients = claims.median(stale, lambda row: row.gradients)
            lines.append([f"{rate:g}", f"{staleness:.1f}", f"{gradients:.0f}; {reached:.2f}", *ratios])
        return lines

    def _witness(self) -> Lines:
        """Return TensorFlow's rates and bytes beside those of the asynchronous server over torch RPC."""
        lines = [["", "examples/s", "MB at the busiest link", "examples/s, torch RPC", "MB, torch RPC"]]
        for workers, servers in WITNESSED:
            cells = []
            for way in (TENSORFLOW, ASYNC):
                cell = Cell(way, servers, workers, LINK)
                examples = self._claims.median(cell, lambda row: row.examples_per_s)
                carried = self._claims.median(cell, lambda row: row.busiest_mb)
                cells += [f"{examples:,.0f}", f"{carried:.2f}"]
            lines.append([f"{workers} workers, {_count(servers)}", *cells])
        return lines

    def _check(self) -> Lines:
        """Return estimated and measured steps for more workers than the estimate was read off."""
        heads = [f"{PLACE_NAMES[place]}, {workers} workers" for place in LINKS for workers in WORKERS[1:]]
        lines = [["", *heads]]
        for way, servers in WAYS:
            cells = []
            for place in LINKS:
                own = self._own_ms(way, servers, place)
                for workers in WORKERS[1:]:
                    measured = self._claims.median(Cell(way, servers, workers, place), lambda row: row.step_ms)
                    estimated = step_ms(Setting(way, servers, workers, place), own)
                    error = "" if way == ASYNC else f" ({100 * (estimated / measured - 1):+.0f} %)"
                    cells.append(f"{_estimated(Setting(way, servers, workers, place), own)}, {measured:.0f}{error}")
            lines.append([name_of(way, servers), *cells])
        return lines

    def _estimate(self) -> Lines:
        """Return estimated steps for many nodes."""
        lines = [["", *(f"{PLACE_NAMES[place]}, {workers}" for place in LINKS for workers in MANY)]]
        lines += [[name_of(way, servers), *self._estimates(way, [servers] * len(MANY))] for way, servers in WAYS]
        lines.insert(3, ["synchronous, as many servers as workers", *self._estimates(SYNC, MANY)])
        return lines

    def _estimates(self, way: str, servers: Sequence[int]) -> list[str]:
        """Return a way's estimated steps, with its number of servers for each number of workers."""
        cells = []
        for place in LINKS:
            own = self._own_ms(way, min(*servers, SERVERS), place)
            settings = [Setting(way, count, workers, place) for count, workers in zip(servers, MANY, strict=True)]
            cells += [_estimated(setting, own) for setting in settings]
        return cells

    def _own_ms(self, way: str, servers: int, place: str) -> float:
        """Return the own time, read off the fewest workers; an asynchronous server's is that of a synchronous one."""
        fewest, like = WORKERS[0], SYNC if way == ASYNC else way
        measured = self._claims.median(Cell(like, servers, fewest, place), lambda row: row.step_ms)
        return own_ms(Setting(like, servers, fewest, place), measured)


def rewritten(page: str, tables: Tables) -> str:
    """Return the page with the tables as the rows make them."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- table: {name} -->\n{tables.table(name)}\n<!-- end of table -->"

    return MARKED.sub(table, page)


def _estimated(setting: Setting, own: float) -> str:
    """Return an estimated step in ms; from turns to lockstep for asynchronous workers."""
    text = f"{step_ms(setting, own):,.0f}"
    return f"{text} to {lockstep_ms(setting, own):,.0f}" if setting.way == ASYNC else text


def name_of(way: str, servers: int) -> str:
    """Return a way as the tables call it."""
    return f"{NAMES[way]}, {_count(servers)}" if servers else NAMES[way]


def _count(servers: int) -> str:
    return f"{servers} server{'s' if servers > 1 else ''}"


def _markdown(lines: Lines) -> str:
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join((head, "|---" * len(lines[0]) + "|", *rest)).replace("|  |", "| |").replace("|  ", "| ")


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), Tables(read_rows(RUNS))), encoding="utf-8")


if __name__ == "__main__":
    main()
