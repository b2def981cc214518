# SPDX-License-Identifier: Apache-2.0
"""A running remote shell: its three pipes, and its end with all that it started here."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from typing import IO

from ringtune.errors import ConfigError

END_S = 1.0  # for a shell whose connection has ended
_SAID_BYTES = 2000


class RemoteShellProcess:
    """Owns the process and its pipes; the loop's callbacks belong to whoever reads them."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start the shell, in a session of its own: the terminal's Ctrl-C is passed on, not died of.

        Args:
            command: The local command line.

        Raises:
            ConfigError: If it cannot be started.
        """
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise ConfigError(
                f"the remote shell {command[0]!r} cannot be started ({error}); install it, or name another with --rsh"
            ) from error
        self._name = os.path.basename(command[0])  # noqa: PTH119  (a name of a program, not a path of ours)
        self._said = bytearray()
        for pipe in self._pipes():
            os.set_blocking(pipe.fileno(), False)

    @property
    def orders(self) -> int:
        """Descriptor of its standard input."""
        return self._pipes()[0].fileno()

    @property
    def reports(self) -> int:
        """Descriptor of its standard output."""
        return self._pipes()[1].fileno()

    @property
    def complaints(self) -> int:
        """Descriptor of its standard error."""
        return self._pipes()[2].fileno()

    def hang_up(self) -> None:
        """Close its standard input; idempotent."""
        with contextlib.suppress(OSError):
            self._pipes()[0].close()

    def read_complaints(self) -> bool:
        """Keep the last of what it complained about; return False at the end."""
        try:
            data = os.read(self.complaints, 1 << 16)
        except BlockingIOError:
            return True
        self._said = (self._said + data)[-_SAID_BYTES:]
        return bool(data)

    def end(self, limit_s: float = END_S) -> str:
        """Give the shell a moment to end, kill what is left of it here, and close the pipes.

        Returns:
            What it said last and its exit code, in words.
        """
        self.hang_up()
        pidfd = os.pidfd_open(self._process.pid)
        has_ended = bool(select.select([pidfd], [], [], limit_s)[0])
        os.close(pidfd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # not reaped yet, so the group is still its own
        code = self._process.wait()
        self.read_complaints()
        for pipe in self._pipes():
            with contextlib.suppress(OSError):
                pipe.close()
        said = " / ".join(self._said.decode("utf-8", "replace").split("\n")).strip(" /\r")
        exited = f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
        ended = exited if has_ended else "was ended"
        return f"{self._name} {ended}" + (f", saying: {said}" if said else " and said nothing")

    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        return process.stdin, process.stdout, process.stderr
