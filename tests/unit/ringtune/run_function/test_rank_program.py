# SPDX-License-Identifier: Apache-2.0
"""A rank of `ringtune.run` on a host that does not share the call's folder."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.run_function.call_folder import CallFolder
from ringtune.run_function.rank_program import main


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error names the folder and the host, and asks for a shared working directory."""
    gone = tmp_path / "gone"

    with pytest.raises(ConfigError, match=f"{gone} of the call is not there on host .* working directory that all"):
        main(CallFolder(gone))
