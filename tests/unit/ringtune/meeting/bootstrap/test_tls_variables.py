# SPDX-License-Identifier: Apache-2.0
"""Protection that an environment asks for."""

from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.tls_variables import FILE_NAMES, read_tls
from ringtune.meeting.rendezvous.tls import BY_CERTIFICATES, BY_JOB_KEY, OFF
from tests.certificates import Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a rank with a certificate."""
    return Authority(tmp_path_factory.mktemp("certificates")).variables("rank")


@pytest.mark.parametrize(
    ("switch", "without_files", "with_files"),
    [
        (None, OFF, BY_CERTIFICATES),
        ("auto", OFF, BY_CERTIFICATES),
        ("1", BY_JOB_KEY, BY_CERTIFICATES),
        ("true", BY_JOB_KEY, BY_CERTIFICATES),
        ("0", OFF, OFF),
    ],
)
def test_switch_and_files_decide(
    files: dict[str, str], switch: str | None, without_files: str, with_files: str
) -> None:
    """Files turn `auto` on; without them the job key is the key."""
    environ = {} if switch is None else {"RINGTUNE_TLS": switch}

    assert without_files == read_tls(environ).mode
    assert with_files == read_tls({**environ, **files}).mode


@pytest.mark.parametrize("value", ["", "yes", "on", "2", "tls", "certificates"])
def test_a_misspelt_switch_is_an_error(value: str) -> None:
    """The text has the value and the allowed values."""
    with pytest.raises(ConfigError, match=f"RINGTUNE_TLS='{value}' is not allowed; allowed: 1, 0 or auto"):
        read_tls({"RINGTUNE_TLS": value})


def test_files_go_together(files: dict[str, str]) -> None:
    """The text names a missing one, and all three."""
    certificate, key, authority = FILE_NAMES

    with pytest.raises(
        ConfigError, match=f"{certificate} is set, but {key} is not; .* needs {certificate}, {key}, {authority}"
    ):
        read_tls({certificate: files[certificate]})


@pytest.mark.parametrize("name", FILE_NAMES)
def test_a_file_that_holds_something_else_is_named(files: dict[str, str], name: str, tmp_path: Path) -> None:
    """A missing file, and one that is no PEM, are errors before anybody is called."""
    absent, empty = tmp_path / "absent.pem", tmp_path / "empty.pem"
    empty.touch()

    with pytest.raises(ConfigError, match=f"{name}='{absent}' cannot be read: No such file"):
        read_tls({**files, name: str(absent)})
    with pytest.raises(ConfigError, match=str(empty)):
        read_tls({**files, name: str(empty)})


def test_the_key_must_be_the_certificates(files: dict[str, str], tmp_path: Path) -> None:
    """A key of another certificate is refused here, and not by the other end."""
    other = Authority(tmp_path).variables("other")

    with pytest.raises(ConfigError, match="does not hold the key of the certificate in"):
        read_tls({**files, FILE_NAMES[1]: other[FILE_NAMES[1]]})
