# SPDX-License-Identifier: Apache-2.0
"""`--output-filename`: a folder with a file for each stream of each rank, `rank.N/stdout` and `rank.N/stderr`."""

import os
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.system.console import write_line
from ringtune.system.whole_file import NEW_FILE_MODE

from .rank_streams import STDERR, STDOUT

FILE_NAMES = {STDOUT: "stdout", STDERR: "stderr"}


class OutputFolder:
    """Takes the ranks' output, byte for byte, into files; see `OutputTaker`.

    A file is open only while it is written: a job may have more files than a process may have descriptors.

    Attributes:
        loss: The first error of a write, which was reported at once; later output may be missing from the files.
    """

    def __init__(self, folder: Path, ranks: int | None) -> None:
        """Make the folder and its files, all empty: the output of an earlier job of as many ranks there is gone.

        Args:
            folder: Folder of the files; made with its parents if it is not there.
            ranks: Number of ranks. Numbers have leading zeros, so that names sort in the order of ranks. None for an
                elastic job: a worker's files, `worker.N/stdout` and `worker.N/stderr`, are made when it first writes.

        Raises:
            ConfigError: If a folder or a file cannot be made.
        """
        self.loss: OSError | None = None
        self._folder = folder
        self._files: dict[tuple[int, int], Path] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for rank in range(ranks or 0):
                width = len(str((ranks or 0) - 1))
                self._make_files(rank, f"rank.{rank:0{width}d}")
        except OSError as error:
            raise ConfigError(
                f"--output-filename {folder}: {error.filename} cannot be made ({error.strerror}); name a folder that "
                "can be written"
            ) from error

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Append to the stream's file; a failure costs the file's rest, and is said once."""
        try:
            if (rank, stream) not in self._files:
                self._make_files(rank, f"worker.{rank}")
            descriptor = os.open(self._files[rank, stream], os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            if self.loss is None:
                self.loss = error
                file = self._files.get((rank, stream), self._folder)
                write_line(
                    f"ringtune run: {file} cannot be written ({error.strerror}); the job goes on, and output may be "
                    "missing from the files"
                )

    def _make_files(self, rank: int, name: str) -> None:
        """Make the empty files of a rank."""
        for stream, file_name in FILE_NAMES.items():
            file = self._files[rank, stream] = self._folder / name / file_name
            file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC  # the names are ours, no links
            os.close(os.open(file, flags, NEW_FILE_MODE))
