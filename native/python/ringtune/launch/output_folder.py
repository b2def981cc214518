# SPDX-License-Identifier: Apache-2.0
"""`--output-filename`: a folder with a file for each stream of each rank, `rank.N/stdout` and `rank.N/stderr`."""

import os
from pathlib import Path

from ringtune.console import write_line
from ringtune.errors import ConfigError

from .rank_streams import STDERR, STDOUT

FILE_NAMES = {STDOUT: "stdout", STDERR: "stderr"}


class OutputFolder:
    """Takes what ranks write, byte for byte, into files; see `OutputTaker`.

    A file is open only while it is written: a job may have more files than a process may have descriptors.

    Attributes:
        loss: The first error of a write, which was said at once; what came after it may be missing from the files.
    """

    def __init__(self, folder: Path, ranks: int) -> None:
        """Make the folder and its files, all empty: what an earlier job of as many ranks left there is gone.

        Args:
            folder: Folder of the files; made with its parents if it is not there.
            ranks: Number of ranks. Numbers have leading zeros, so that names sort in the order of ranks.

        Raises:
            ConfigError: If a folder or a file cannot be made.
        """
        width = len(str(ranks - 1))
        self.loss: OSError | None = None
        self._files = {
            (rank, stream): folder / f"rank.{rank:0{width}d}" / name
            for rank in range(ranks)
            for stream, name in FILE_NAMES.items()
        }
        try:
            for file in self._files.values():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"")
        except OSError as error:
            raise ConfigError(
                f"--output-filename {folder}: {error.filename} cannot be made ({error.strerror}); name a folder that "
                "can be written"
            ) from error

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Append to the stream's file; a failure costs the file's rest, and is said once."""
        try:
            descriptor = os.open(self._files[rank, stream], os.O_WRONLY | os.O_APPEND)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            if self.loss is None:
                self.loss = error
                write_line(
                    f"ringtune run: {self._files[rank, stream]} cannot be written ({error.strerror}); the job goes on, "
                    "and output may be missing from the files"
                )
