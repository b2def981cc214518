# SPDX-License-Identifier: Apache-2.0
"""Tables are kept by key; whatever else is in the folder, or becomes of it, is said and never used."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.world.algorithm_tables.store import TableFileError, TableStore, read_table
from ringtune.world.algorithm_tables.table import AlgorithmTable, CallTime, TableKey, TableRow, describe
from tests.unit.full_disk import no_room_beyond

KEY = TableKey("0.1", "direct to 16 KiB, then ring in chunks of 1 MiB", "ab" * 32, 2, (2,), "shm", None)
TABLE = AlgorithmTable(
    KEY.to_json(),
    (TableRow(16384, "direct", 131072), TableRow(None, "reduce_scatter_allgather", 65536)),
    0.5,
    1.2,
    (CallTime(1024, 3.5e-6), CallTime(1048576, 2e-4)),
)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    """A store whose folder is not there yet."""
    return TableStore(tmp_path / "cache" / "tables")


def test_what_was_kept_is_found(store: TableStore) -> None:
    """The folder is made, and the file holds the key of its table."""
    path = store.save(KEY, TABLE)

    assert TABLE == store.load(KEY)
    assert KEY.to_json() == json.loads(path.read_text())["key"]
    assert [path] == list(path.parent.iterdir())


def test_a_later_table_replaces_the_one_before(store: TableStore) -> None:
    """One key has one table."""
    store.save(KEY, TABLE)

    store.save(KEY, replace(TABLE, measured_s=1.0))

    assert replace(TABLE, measured_s=1.0) == store.load(KEY)
    assert 1 == len(store.tables())


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, version="0.2"),
        replace(KEY, compiled_in="direct to 64 KiB, then ring in chunks of 1 MiB"),
        replace(KEY, hardware="cd" * 32),
        replace(KEY, usable_cores=1),
        replace(KEY, layout=(4,)),
        replace(KEY, carrier="tcp"),
        replace(KEY, between_hosts="ring"),
    ],
)
def test_another_key_has_no_table(store: TableStore, other: TableKey) -> None:
    """Everything in the key tells tables apart."""
    store.save(KEY, TABLE)

    assert None is store.load(other)


BROKEN = {
    "nothing": "",
    "torn": json.dumps(TABLE.to_json())[:-20],
    "no JSON": "algorithm",
    "deep": "[" * 100_000,
    "no object": "[]",
    "another schema": json.dumps({**TABLE.to_json(), "schema": 2}),
    "no rows": json.dumps({**TABLE.to_json(), "rows": None}),
    "rows of text": json.dumps({**TABLE.to_json(), "rows": ["direct"]}),
    "a nameless row": json.dumps({**TABLE.to_json(), "rows": [{"max_bytes": None, "chunk_bytes": 65536}]}),
    "a bound of text": json.dumps(
        {**TABLE.to_json(), "rows": [{"max_bytes": "1", "algorithm": "direct", "chunk_bytes": 65536}]}
    ),
    "a chunk of true": json.dumps(
        {**TABLE.to_json(), "rows": [{"max_bytes": None, "algorithm": "direct", "chunk_bytes": True}]}
    ),
    "a chunk past all": json.dumps(
        {**TABLE.to_json(), "rows": [{"max_bytes": None, "algorithm": "direct", "chunk_bytes": 2**64}]}
    ),
    "calls of text": json.dumps({**TABLE.to_json(), "calls": "1024"}),
    "a call of no time": json.dumps({**TABLE.to_json(), "calls": [{"size_bytes": 1024, "call_s": 0.0}]}),
    "a call of no size": json.dumps({**TABLE.to_json(), "calls": [{"call_s": 1e-6}]}),
    "no time": json.dumps({**TABLE.to_json(), "measured_s": None}),
    "a time that is none": json.dumps({**TABLE.to_json(), "measured_s": float("nan")}),
    "a load without end": json.dumps({**TABLE.to_json(), "load": float("inf")}),
    "a load of true": json.dumps({**TABLE.to_json(), "load": True}),
    "a load past all": json.dumps({**TABLE.to_json(), "load": 10**400}),
    "a negative time": json.dumps({**TABLE.to_json(), "measured_s": -1.0}),
    "a call that is no number": json.dumps({**TABLE.to_json(), "calls": [{"size_bytes": 1, "call_s": float("nan")}]}),
    "a name that clears the screen": json.dumps(
        {**TABLE.to_json(), "rows": [{"max_bytes": None, "algorithm": "\x1b[2J", "chunk_bytes": 65536}]}
    ),
    "a name without end": json.dumps(
        {**TABLE.to_json(), "rows": [{"max_bytes": None, "algorithm": "a" * 100_000, "chunk_bytes": 65536}]}
    ),
    "a key that clears the screen": json.dumps({**TABLE.to_json(), "key": {**KEY.to_json(), "carrier": "\x1b[2J"}}),
    "no load": json.dumps({**TABLE.to_json(), "load": "high"}),
}


def test_a_table_without_calls_is_one(store: TableStore) -> None:
    """A table written by hand need not have the times of calls."""
    path = store.save(KEY, TABLE)
    path.write_text(json.dumps({name: value for name, value in TABLE.to_json().items() if name != "calls"}))

    assert replace(TABLE, calls=()) == store.load(KEY)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_named_and_not_used(store: TableStore, content: str) -> None:
    """A reader never takes a part of a table, or something else, for one."""
    path = store.save(KEY, TABLE)
    path.write_text(content, encoding="utf-8")

    with pytest.raises(TableFileError, match=path.name):
        store.load(KEY)
    assert [(path, None)] == store.tables()


def test_bytes_that_are_no_text_are_no_table(store: TableStore) -> None:
    """Binary files included."""
    path = store.save(KEY, TABLE)
    path.write_bytes(bytes(range(256)))

    with pytest.raises(TableFileError, match="no algorithm table"):
        store.load(KEY)


def test_a_table_for_something_else_is_not_used(store: TableStore) -> None:
    """A file that was copied over another one's says so itself."""
    path = store.save(KEY, TABLE)
    other = replace(KEY, layout=(4,))
    path.rename(store.path(other))

    with pytest.raises(TableFileError, match="something else"):
        store.load(other)


def test_a_full_disk_keeps_the_old_table_and_leaves_nothing(store: TableStore) -> None:
    """The file is replaced as a whole or not at all."""
    path = store.save(KEY, TABLE)

    with no_room_beyond(0), pytest.raises(OSError):  # noqa: PT011  (which one depends on the system)
        store.save(KEY, replace(TABLE, measured_s=1.0))

    assert TABLE == store.load(KEY)
    assert [path] == list(path.parent.iterdir())


def test_a_folder_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    """The caller decides the consequence for the job."""
    (tmp_path / "cache").write_text("no folder")

    with pytest.raises(OSError, match="Not a directory|File exists"):
        TableStore(tmp_path / "cache" / "tables").save(KEY, TABLE)


def test_the_cache_folder_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache folder follows the XDG base directories: a relative one is ignored."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def folder(environ: dict[str, str]) -> Path:
        return TableStore.of_user(environ).path(KEY).parent

    assert tmp_path / "xdg" / "ringtune" / "algorithm-tables" == folder({"XDG_CACHE_HOME": str(tmp_path / "xdg")})
    assert tmp_path / "home" / ".cache" / "ringtune" / "algorithm-tables" == folder({})
    assert folder({}) == folder({"XDG_CACHE_HOME": ""}) == folder({"XDG_CACHE_HOME": "cache"})


def test_a_table_is_described_for_people() -> None:
    """The description names the table's job, and the algorithm in use up to each size."""
    expected = (
        "[2] ranks per host over shm, ringtune 0.1, at a load of 1.2: direct to 16 KiB, then reduce_scatter_allgather "
        "in chunks of 64 KiB"
    )

    assert expected == TABLE.summary()


def test_between_hosts_each_algorithm_is_described_for_itself() -> None:
    """Each algorithm between hosts has its own line, for the config chooses between them, not the size."""
    rows = (TableRow(65536, "ring", 65536), TableRow(None, "ring", 2**20), TableRow(None, "hierarchical", 2**18))

    expected = "ring in chunks of 64 KiB to 64 KiB, then ring in chunks of 1 MiB; hierarchical in chunks of 256 KiB"
    assert expected == describe(rows)


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    """A given path must lead to a table."""
    with pytest.raises(TableFileError, match="No such file"):
        read_table(tmp_path / "none.json")


@pytest.mark.parametrize(("then", "now", "is_outdated"), [(23.0, 0.5, True), (23.0, 3.0, False), (3.0, 0.5, False)])
def test_what_was_measured_on_a_busy_machine_is_not_for_a_calm_one(then: float, now: float, is_outdated: bool) -> None:
    """Between busy and calm it is left alone, so that no table comes and goes."""
    assert is_outdated == replace(TABLE, load=then).is_of_busier_times(now)


@pytest.mark.parametrize("seed", range(30))
def test_flipped_bits_give_a_table_or_an_error_that_shows_nothing(store: TableStore, seed: int) -> None:
    """A damaged file gives a table or its own error, and no control character is shown."""
    path = store.save(KEY, TABLE)
    dice = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 20)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content[: dice.randrange(len(content) // 2, len(content) + 1)])

    try:
        shown = read_table(path).summary()
    except TableFileError as error:
        shown = str(error)

    assert shown.isprintable()
