# SPDX-License-Identifier: Apache-2.0
"""The service's settings: flags, then the environment, then .env, then defaults; the documented table is complete."""

import os
import re
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.service.serving import data_place
from ringtune.service.settings import PREFIX, ServiceSettings, is_loopback_host

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "service.md"
ROW = re.compile(r"^\| `([A-Z_]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_flags_come_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag that was not given leaves the others to speak."""
    Path(".env").write_text(
        f"{PREFIX}PORT=1\n{PREFIX}RATE_PER_S=1\n{PREFIX}REQUESTS_MAX=1\nOTHER=1\n", encoding="utf-8"
    )
    monkeypatch.setenv(f"{PREFIX}PORT", "2")
    monkeypatch.setenv(f"{PREFIX}RATE_PER_S", "2")

    settings = ServiceSettings.read(port=3, host=None)

    assert (3, 2.0, 1, "127.0.0.1") == (settings.port, settings.rate_per_s, settings.requests_max, settings.host)


def test_each_setting_says_where_it_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags, environment and the file with its path are named as sources; neither defaults nor values are in it."""
    Path(".env").write_text(f"{PREFIX}HOST=0.0.0.0\n{PREFIX}PORT=1\n{PREFIX}ADMIN_TOKEN={'s' * 20}\n", encoding="utf-8")
    monkeypatch.setenv(f"{PREFIX}RATE_PER_S", "2")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    settings = ServiceSettings.read(port=3)

    assert settings.has_file
    assert (
        f"port from flags; rate_per_s from the environment; host, admin_token from {tmp_path}/.env" == settings.origins
    )
    Path(".env").unlink()
    monkeypatch.delenv(f"{PREFIX}RATE_PER_S")
    assert ("", False) == (ServiceSettings.read().origins, ServiceSettings.read().has_file)


def test_a_misspelt_setting_is_told_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment and in the file; a job's variable under the prefix of jobs is not the service's."""
    Path(".env").write_text(f"{PREFIX}HOTS=localhost\nAUTOTUNE_SERVICE_URL=http://localhost\n", encoding="utf-8")
    monkeypatch.setenv(f"{PREFIX}RETENTION_DAY", "3")

    slips = ServiceSettings.read().slips

    assert slips == (
        f"{PREFIX}HOTS is no setting of the service; did you mean {PREFIX}HOST?",
        f"{PREFIX}RETENTION_DAY is no setting of the service; did you mean {PREFIX}RETENTION_DAYS?",
    )


def test_service_links_of_kubernetes_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pod beside a service called ringtune the service still listens where it would elsewhere."""
    for name, value in {"PORT": "tcp://10.96.0.7:80", "SERVICE_HOST": "10.96.0.7", "SERVICE_PORT": "80"}.items():
        monkeypatch.setenv(f"RINGTUNE_{name}", value)
    monkeypatch.setenv("RINGTUNE_SERVICE_PORT_HTTP", "80")
    monkeypatch.setenv(f"{PREFIX}RATE_BURST", "7")

    settings = ServiceSettings.read()

    assert ("127.0.0.1", 8470, 7) == (settings.host, settings.port, settings.rate_burst)
    assert "rate_burst from the environment" == settings.origins
    (slip,) = settings.slips
    assert slip.startswith(f"{PREFIX}HOST, {PREFIX}PORT are service links of Kubernetes and not read as settings")


def test_a_service_called_ringtune_service_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address has the name of the setting of the port; a host that the pod sets itself holds."""
    monkeypatch.setenv(f"{PREFIX}PORT", "tcp://10.96.0.8:8470")
    monkeypatch.setenv(f"{PREFIX}HOST", "::1")

    settings = ServiceSettings.read()

    assert ("::1", 8470, "host from the environment") == (settings.host, settings.port, settings.origins)
    assert 1 == len(settings.slips)


def stranger(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make a file somebody else's, as far as its reader can tell; returns the owner."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345, follow_symlinks=False)
        return 12345
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    return own


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(mode: int) -> None:
    """A writable file could name a token that its writer knows; the error has the path and the remedy."""
    Path(".env").write_text(f"{PREFIX}ADMIN_TOKEN={'s' * 20}\n", encoding="utf-8")
    Path(".env").chmod(mode)

    with pytest.raises(ConfigError, match=r"/\.env, which can be written by others \(mode 06..\).*chmod go-w"):
        ServiceSettings.read()
    Path(".env").chmod(0o644)
    assert ServiceSettings.read().fixed_tokens


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of the file, and of a link to it, must be this user or root."""
    (tmp_path / "elsewhere").write_text(f"{PREFIX}PORT=1\n", encoding="utf-8")
    Path(".env").symlink_to(tmp_path / "elsewhere")
    assert 1 == ServiceSettings.read().port

    for path in (Path(".env"), tmp_path / "elsewhere"):
        with monkeypatch.context() as patch:
            owner = stranger(path, patch)
            with pytest.raises(ConfigError, match=f"belongs to user {owner}, not to you"):
                ServiceSettings.read()
        if os.geteuid() == 0:
            os.chown(path, 0, 0, follow_symlinks=False)
    assert 1 == ServiceSettings.read().port


def test_files_that_are_no_settings_are_refused(tmp_path: Path) -> None:
    """A pipe without a writer, a folder, bytes that are no text."""
    os.mkfifo(".env", 0o600)
    with pytest.raises(ConfigError, match="is no regular file"):
        ServiceSettings.read()
    Path(".env").unlink()
    Path(".env").mkdir()
    with pytest.raises(ConfigError, match="is no regular file"):
        ServiceSettings.read()
    Path(".env").rmdir()
    Path(".env").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        ServiceSettings.read()


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("PORT", "99999", "less than or equal to 65535"),
        ("PORT", "abc", "valid integer"),
        ("RATE_PER_S", "nan", "finite number"),
        ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("ADMIN_TOKEN", "short-secret", "at least 20"),
    ],
)
def test_a_wrong_value_names_the_setting_and_not_the_value(
    name: str, value: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says the allowed values; a value may be a secret."""
    monkeypatch.setenv(PREFIX + name, value)

    with pytest.raises(ConfigError, match=PREFIX + name) as caught:
        ServiceSettings.read()

    assert part in str(caught.value)
    assert value not in str(caught.value).replace(part, "")


def test_a_certificate_needs_its_key() -> None:
    """Half of TLS is none."""
    with pytest.raises(ConfigError, match="tls_certificate and tls_key go together"):
        ServiceSettings.read(tls_certificate="a.pem")


def test_the_data_lie_in_the_users_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data folder follows XDG; a relative folder counts as none."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert f"sqlite:///{tmp_path}/ringtune/service.sqlite3" == ServiceSettings.read().effective_database_url

    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / ".local/share/ringtune/service.sqlite3" == ServiceSettings.read().data_file


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True)]
    + [(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", "")],
)
def test_loopback_is_told_from_the_world(host: str, expected: bool) -> None:
    """Names that only look like this machine are others."""
    assert expected == is_loopback_host(host)


def test_no_secret_is_shown() -> None:
    """Secrets are in neither the settings' text nor their fields."""
    url = "postgresql+psycopg://ringtune:hunter2@db/ringtune"
    settings = ServiceSettings.read(database_url=url, admin_token="hunter2-hunter2-hunter2")

    assert "hunter2" not in f"{settings!r} {settings.model_dump()}"
    assert url == settings.effective_database_url
    assert "postgresql database ringtune on db" == data_place(settings)


def test_where_the_data_is_names_the_file_that_was_given() -> None:
    """The file's name is the flag's, not the variable's that it might have been set by."""
    assert "/srv/tuned.sqlite3" == data_place(ServiceSettings.read(database_url="sqlite:////srv/tuned.sqlite3"))


TOKEN = "t" * 24


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_secrets_come_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Tokens and the database's password, without the line end that editors and shells leave."""
    for name, content in (("ADMIN_TOKEN", TOKEN), ("READ_TOKEN", TOKEN + "r"), ("DATABASE_PASSWORD", "p@ss/w:rd")):
        (tmp_path / name).write_bytes((content + end).encode())
        monkeypatch.setenv(f"{PREFIX}{name}_FILE", str(tmp_path / name))

    settings = ServiceSettings.read(database_url="postgresql+psycopg://ringtune@db:5432/ringtune?sslmode=require")

    tokens = {scope: token.get_secret_value() for scope, token in settings.fixed_tokens.items()}
    assert {"admin": TOKEN, "read": TOKEN + "r"} == tokens
    url = "postgresql+psycopg://ringtune:p%40ss%2Fw%3Ard@db:5432/ringtune?sslmode=require"
    assert url == settings.effective_database_url
    assert TOKEN not in repr(settings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"short\n", ": .* at least 20 "),
        (b"", "is not one line of text"),
        (b"one\ntwo\n", "is not one line of text"),
        (b"\xff" * 24, "is not one line of text"),
        (b"x" * 5000, "at most 4096 bytes"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_file_that_holds_no_secret_is_named_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, words: str
) -> None:
    """The message has the setting and the reason; the content stays out of it."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(f"{PREFIX}ADMIN_TOKEN_FILE", str(path))

    with pytest.raises(ConfigError, match=f"{PREFIX}ADMIN_TOKEN.*{words}") as caught:
        ServiceSettings.read()

    assert "two" not in str(caught.value)
    assert "short" not in str(caught.value)


def test_a_pipe_does_not_keep_the_start_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a regular file is opened."""
    os.mkfifo(tmp_path / "token")
    monkeypatch.setenv(f"{PREFIX}READ_TOKEN_FILE", str(tmp_path / "token"))

    with pytest.raises(ConfigError, match="is no regular file"):
        ServiceSettings.read()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"admin_token": TOKEN, "admin_token_file": "token"}, "ADMIN_TOKEN and .*ADMIN_TOKEN_FILE are both set"),
        ({"database_password_file": "token"}, "needs a database URL with a user"),
        ({"database_password_file": "token", "database_url": "postgresql://host/name"}, "with a user"),
        ({"database_password_file": "token", "database_url": "postgresql://u:old@host/name"}, "without a password"),
    ],
)
def test_a_secret_has_one_source(tmp_path: Path, flags: dict[str, str], words: str) -> None:
    """Two that might differ are an error, and so is a password without a use."""
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")

    with pytest.raises(ConfigError, match=words) as caught:
        ServiceSettings.read(**flags)

    assert "old" not in str(caught.value)


def test_every_setting_stands_in_the_documentation_with_its_default() -> None:
    """One table, and it is complete."""
    documented = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))

    expected = {}
    for name, field in ServiceSettings.model_fields.items():
        variable = str(field.validation_alias or f"{PREFIX}{name.upper()}")
        expected[variable] = "none" if field.default is None else f"`{field.default}`"

    assert expected == documented
