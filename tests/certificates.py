# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests of TLS, by the program `openssl`."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Authority:
    """An authority that signs certificates; its files are in a folder."""

    folder: Path
    name: str = "authority"

    def __post_init__(self) -> None:
        """Make its key and certificate."""
        _openssl("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={self.name}", *_outputs(self._path, ".pem"))

    @property
    def _path(self) -> Path:
        return self.folder / self.name

    def files(self, name: str, *, days: int = 2) -> tuple[str, str, str]:
        """Return the files of a new certificate, of its key and of this authority.

        Args:
            name: Name of its holder, which names the files.
            days: Days for which it holds; with 0 it has expired when the files are returned.
        """
        path = self.folder / f"{self.name}.{name}"
        _openssl("req", *_NEW_KEY, "-subj", f"/CN={name}", *_outputs(path, ".csr"))
        signed_by = ("-CA", f"{self._path}.pem", "-CAkey", f"{self._path}.key", "-CAcreateserial")
        _openssl("x509", "-req", "-in", f"{path}.csr", *signed_by, "-days", str(days), "-out", f"{path}.pem")
        while days == 0 and _holds(f"{path}.pem"):  # within the second in which it was made
            time.sleep(0.1)
        return f"{path}.pem", f"{path}.key", f"{self._path}.pem"

    def variables(self, name: str, *, days: int = 2) -> dict[str, str]:
        """Return the variables of a rank with a new certificate; see `files`."""
        names = ("RINGTUNE_TLS_CERT", "RINGTUNE_TLS_KEY", "RINGTUNE_TLS_CA")
        return dict(zip(names, self.files(name, days=days), strict=True))


def _outputs(path: Path, suffix: str) -> tuple[str, ...]:
    return "-keyout", f"{path}.key", "-out", f"{path}{suffix}"


def _holds(certificate: str) -> bool:
    command = ["openssl", "x509", "-checkend", "0", "-noout", "-in", certificate]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _openssl(*arguments: str) -> None:
    finished = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert 0 == finished.returncode, finished.stderr
