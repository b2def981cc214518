# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole: a reader meets the old content or the new, never a part."""

import contextlib
import tempfile
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.system.whole_file import replace_whole

MODE = 0o644
EXECUTABLE_MODE = 0o755


def replace_file(path: Path, content: bytes, *, is_executable: bool = False) -> None:
    """Write `content` beside `path`, then rename it onto `path`; the folder is made where there is none.

    Args:
        path: The file.
        content: Its new content.
        is_executable: True for a script that can be started by its path.

    Raises:
        ConfigError: If it cannot be written; no part of it is left behind then.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content, EXECUTABLE_MODE if is_executable else MODE)
    except OSError as error:
        raise _refusal(path, error) from error


def check_folder(folder: Path) -> None:
    """Check that files can be written to a folder; the check removes the files and folders that it makes.

    Raises:
        ConfigError: If the folder cannot be made, or takes no file.
    """
    made: list[Path] = []
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refusal(folder, error) from error
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()


def _refusal(path: Path, error: OSError) -> ConfigError:
    reason = error.strerror or error
    return ConfigError(f"{path} cannot be written ({reason}); choose a folder that is yours with --output")
