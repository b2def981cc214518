# SPDX-License-Identifier: Apache-2.0
"""The owner of a place: the first process that calls `init()` with its variables, until that process ends.

Variables are inherited: a data loader's spawned worker, a tool that a rank starts, and a second program of a script
have them too. The owner holds an abstract socket that is named after the place: the kernel decides which process was
first, reports the holder, and frees the socket at the owner's death or exec. Being a launcher's direct child does not
make an owner: shells and profilers stand between launcher and rank.
"""

import errno
import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from hashlib import sha256
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.peer_process import PeerProcess, peer_process
from ringtune.system.printable import shown_command

from . import explicit, joining, mpi, slurm, torch_store
from .ancestors import ancestors
from .identity import Identity

_IDENTIFIERS: tuple[Callable[[Mapping[str, str]], Identity | None], ...] = (
    explicit.identify,
    joining.identify,
    torch_store.identify,
    mpi.identify,
    slurm.identify,
)
_QUEUE = 128  # later processes that asked who the owner is; it never accepts them


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the place that the environment's variables give; None where they give none.

    Launchers' worlds of one have no identity; `ringtune run`'s has, because it looks its rank's process up.
    """
    found = (identifier(environ) for identifier in _IDENTIFIERS)
    return next((identity for identity in found if identity is not None), None)


def find_owner(environ: Mapping[str, str]) -> int | None:
    """Return the process id of this user's process that owns the place of an environment; None where none is seen."""
    identity = identify(environ)
    owner = None if identity is None else _ask(_socket_name(identity))
    return owner.pid if owner is not None and owner.is_own_users and owner.pid > 0 else None


class Ownership:
    """The place that this process owns, the newest one, and the variables that gave it. Used from the main thread."""

    def __init__(self) -> None:
        """Begin without a place."""
        self._sockets: dict[str, socket.socket] = {}  # by name
        self._told: dict[str, str] = {}
        self._job_key = ""

    def claim(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Own the place that the environment gives, from now until this process ends or owns another one.

        Args:
            environ: The environment. Where it tells no place any more, the one that this process owns holds; where it
                has no job key any more, the one that `withhold_key` took out of it.

        Returns:
            The environment, completed with the variables of the owned place where it lacks them all.

        Raises:
            ConfigError: If another process owns the place; not in a world of one, where every process is alone, and not
                where a process group of torch's tells this one its place.
        """
        environ = self._completed(environ)
        identity = identify(environ)
        if identity is None:
            return environ
        name = _socket_name(identity)
        if name not in self._sockets:
            held = _take(name)
            if held is None and (identity.is_alone or torch_store.has_process_group()):
                return environ
            if held is None:
                _refuse(identity, _ask(name))
                return environ
            for earlier in self._sockets.values():
                earlier.close()
            self._sockets = {name: held}
        self._told = identity.variables(environ)
        return environ

    def _completed(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment with the key that was taken out, and with the owned place where it names none."""
        tells_some = any(name in environ for name in self._told)
        if self._job_key and explicit.JOB_KEY_NAME not in environ:
            environ = {**environ, explicit.JOB_KEY_NAME: self._job_key}
        return environ if tells_some or identify(environ) is not None else {**environ, **self._told}

    def withhold_key(self, environ: MutableMapping[str, str]) -> None:
        """Take the job key out of this process's environment, which children, loggers and reports get; keep it here.

        Args:
            environ: The process's own environment.
        """
        key = environ.pop(explicit.JOB_KEY_NAME, "")
        if key:
            self._job_key = key
            environ[explicit.JOB_DIGEST_NAME] = explicit.job_digest(key)

    def release(self) -> None:
        """Give up every place: another process may own it, and its variables complete no environment any more.

        A forked child does so, for its parent goes on to own the place, and a platform's worker between two jobs.
        """
        for held in self._sockets.values():
            held.close()
        self._sockets.clear()
        self._told = {}
        self._job_key = ""


def _socket_name(identity: Identity) -> str:
    digest = sha256(f"ringtune place\n{os.geteuid()}\n{identity.text}".encode("utf-8", "surrogateescape"))
    return f"ringtune-place-{digest.hexdigest()[:40]}"


def _take(name: str) -> socket.socket | None:
    """Return the socket that owns a place; None where another process has it."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        held.bind(f"\0{name}")
        held.listen(_QUEUE)
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return held


def _ask(name: str) -> PeerProcess | None:
    """Return the process that holds a place; None where the kernel cannot report it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as caller:
        try:
            caller.connect(f"\0{name}")
            return peer_process(caller)
        except OSError:  # it has ended meanwhile, or very many have asked
            return None


def _refuse(identity: Identity, owner: PeerProcess | None) -> None:
    """Raise for a place that another process of this user owns; another user's socket of that name is ignored."""
    if owner is not None and not owner.is_own_users:
        return
    raise ConfigError(
        f"{identity.place} belongs to {_describe(owner)}: this process (pid {os.getpid()}) has inherited the variables "
        'that tell it. Where worker processes import the script, guard init() with `if __name__ == "__main__":`; to '
        f"let this process work alone, start it without {', '.join(identity.unset)}; for a job of its own, start it "
        "with `ringtune run -np N COMMAND`"
    )


def _describe(owner: PeerProcess | None) -> str:
    if owner is None or owner.pid == 0:
        return "another process already"
    try:
        command = shown_command(Path(f"/proc/{owner.pid}/cmdline").read_text("utf-8", "replace").split("\0"))
    except OSError:
        command = ""
    shown = f" ({command})" if command else ""
    relation = ", which started this one," if any(ancestor.pid == owner.pid for ancestor in ancestors()) else ""
    return f"process {owner.pid}{shown}{relation} already"
