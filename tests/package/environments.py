# SPDX-License-Identifier: Apache-2.0
"""Environments that have a wheel from `dist` and no sources of ours; commands run there from another folder."""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 300.0
INSTALL_LIMIT_S = 900.0
INHERITED = ("HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
"""Variables that commands get from here; not PATH and PYTHONPATH, by which they would find this repository."""
PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass(frozen=True)
class Finished:
    """The end of a command: its exit status and output."""

    code: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both outputs, for failure messages."""
        return f"exit code {self.code}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        root: Its folder.
        folder: Folder where commands run.
    """

    root: Path
    folder: Path

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self.root / "bin" / "python")

    @property
    def ringtune(self) -> str:
        """The environment's `ringtune` command."""
        return str(self.root / "bin" / "ringtune")

    @property
    def packages(self) -> Path:
        """The folder that packages are installed in."""
        return next((self.root / "lib").glob("python3*")) / "site-packages"

    def variables(self, *, has_compilers: bool, **more: str) -> dict[str, str]:
        """Return the variables for a command.

        Args:
            has_compilers: Whether PATH has the folders of this machine's programs, too.
            more: Further variables.
        """
        own = str(self.root / "bin")
        path = f"{own}{os.pathsep}{os.environ['PATH']}" if has_compilers else own
        return {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "PATH": path,
            "AUTOTUNE_LOCK": "0",
            **more,
        }

    def run(self, *command: str, has_compilers: bool = False, **variables: str) -> Finished:
        """Run a command to its end, from a folder that is not the repository."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.variables(has_compilers=has_compilers, **variables),
            timeout=LIMIT_S,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def install(self, *requirements: str, options: tuple[str, ...] = ("--only-binary=:all:",)) -> None:
        """Install requirements by pip; wheels alone unless told otherwise."""
        command = [self.python, "-m", "pip", "install", "--quiet", *options, *requirements]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT_S)
        assert 0 == done.returncode, done.stderr


def create(folder: Path, *, on_top_of: Path | None = None) -> Environment:
    """Create an empty environment.

    Args:
        folder: Empty; gets the environment and the folder that commands run in.
        on_top_of: Root of another environment, whose packages it finds behind its own.
    """
    made = Environment(folder / "environment", folder / "elsewhere")
    made.folder.mkdir()
    venv.create(made.root, with_pip=True, symlinks=True)
    if on_top_of is not None:
        version = "python{}.{}".format(*sys.version_info)
        (made.packages / "behind.pth").write_text(f"{on_top_of / 'lib' / version / 'site-packages'}\n")
    return made
