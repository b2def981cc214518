# SPDX-License-Identifier: Apache-2.0
"""Credentials of a real munge: which users can open them, and how tasks of several users meet at rank 0's desk."""

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtune.meeting.bootstrap.munge import Munge, SealError
from ringtune.meeting.bootstrap.sealed_exchange import Desk, SealedExchange
from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.place import Place
from tests.integration.munge_daemon import munge_daemon, munge_folder, needs_munge
from tests.integration.ports import free_port

pytestmark = needs_munge
NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="processes of another user need root")
OPEN = "import sys; from ringtune.meeting.bootstrap.munge import Munge; print(Munge(sys.argv[1]).open(sys.argv[2]))"
ASK = """
import sys
from ringtune.meeting.bootstrap.munge import Munge
from ringtune.meeting.bootstrap.sealed_exchange import Desk, SealedExchange
from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.place import Place
desk = Desk(Address.parse(sys.argv[2]), "job", Munge(sys.argv[1]))
print("asking", flush=True)
print(SealedExchange(Place(1, 2, 0, "test"), desk, 1.0).gather("strange text"))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder for daemons."""
    with munge_folder() as made:
        yield made


@pytest.fixture
def socket_path(folder: Path) -> Iterator[str]:
    """Return the socket of a daemon."""
    with munge_daemon(folder, "first") as path:
        yield str(path)


def as_nobody(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code as another user."""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    command = [*user, sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_credential_is_opened_once_and_hides_its_text(socket_path: str) -> None:
    """A second opening is a replay."""
    munge = Munge(socket_path)

    sealed = munge.seal("the key, größer")

    assert "key" not in sealed
    assert "the key, größer" == munge.open(sealed)
    with pytest.raises(SealError, match="[Rr]eplay"):
        munge.open(sealed)


@pytest.mark.parametrize("text", ["", "garbage", "MUNGE:AwQDAAD=:", "ä\udcff"])
def test_what_is_no_credential_is_refused(socket_path: str, text: str) -> None:
    """No bytes of a stranger have another effect."""
    with pytest.raises(SealError, match="munge"):
        Munge(socket_path).open(text)


@needs_root
def test_another_user_cannot_open_it(socket_path: str) -> None:
    """The daemon opens it only for the user that has made it."""
    finished = as_nobody(OPEN, socket_path, Munge(socket_path).seal("the key"))

    assert 0 != finished.returncode
    assert "Unauthorized" in finished.stderr, finished.stderr
    assert "the key" not in finished.stdout + finished.stderr


@needs_root
def test_what_another_user_has_made_is_refused(socket_path: str) -> None:
    """The credential names no user that may open it, so that this one may, too."""
    made = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "munge", f"--socket={socket_path}", "--string=text"],
        capture_output=True,
        text=True,
        check=True,
    )

    with pytest.raises(SealError, match=f"made by user {NOBODY}"):
        Munge(socket_path).open(made.stdout.strip())


def test_clusters_with_other_keys_have_other_credentials(folder: Path, socket_path: str) -> None:
    """A cluster opens no credential of another one."""
    with munge_daemon(folder, "second") as other, pytest.raises(SealError, match="Invalid"):
        Munge(str(other)).open(Munge(socket_path).seal("text"))


def test_without_a_daemon_the_error_names_its_socket(folder: Path) -> None:
    """The lack is found at once, and not at the first credential."""
    with pytest.raises(SealError, match="no-such.socket"):
        Munge(str(folder / "no-such.socket"))


@needs_root
def test_ranks_of_two_nodes_meet_and_a_stranger_does_not(folder: Path) -> None:
    """A daemon on each node, with one key; another user's request gets no answer, and the ranks meet all the same."""
    key = secrets.token_bytes(64)
    address = Address("tcp", "127.0.0.1", free_port())
    with munge_daemon(folder, "n1", key) as first, munge_daemon(folder, "n2", key) as second:
        exchanges = [
            SealedExchange(Place(rank, 2, 0, "test"), Desk(address, "job", Munge(str(path))), 60.0)
            for rank, path in enumerate((first, second))
        ]
        texts: list[str] = []
        thread = threading.Thread(target=lambda: texts.extend(exchanges[0].gather("text 0")))
        thread.start()
        stranger = as_nobody(ASK, str(second), str(address))
        guest = threading.Thread(target=lambda: exchanges[1].gather("text 1"))
        guest.start()
        thread.join()
        exchanges[0].spread("the answer")
        guest.join()
        answer = exchanges[1].spread("")
        for exchange in exchanges:
            exchange.close()

    assert ["text 0", "text 1"] == texts
    assert "the answer" == answer
    assert "asking" in stranger.stdout
    assert "CollectiveTimeout" in stranger.stderr
    assert "dropped the connection" in stranger.stderr, stranger.stderr
