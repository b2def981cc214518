# SPDX-License-Identifier: Apache-2.0
"""The service's settings: flags first, then `RINGTUNE_SERVICE_*`, then `.env`, then the defaults; read once, at start.

`docs/reference/service.md` has the table; a test compares it with the fields here.
"""

import difflib
import ipaddress
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, PrivateAttr, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from ringtune.errors import ConfigError
from ringtune.service.env_file import env_file_values
from ringtune.service.secret_files import secret_in, with_password
from ringtune.settings.kubernetes_links import service_links

PREFIX = "RINGTUNE_SERVICE_"
MIN_SECRET = 20
"""Characters of a token that is set, not made here."""
ENV_FILE = ".env"
FLAGS, ENVIRONMENT = "flags", "the environment"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class ServiceSettings(BaseSettings):
    """Everything that can be set. Units are in the names."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        validate_default=True,
    )

    host: Annotated[
        str, Field(min_length=1, description="Address to listen on; any other than loopback needs a token")
    ] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port; 0: any free one")] = 8470
    database_url: Annotated[
        SecretStr | None,
        Field(description="`sqlite:///FILE` or `postgresql+psycopg://...`; default: a file in the user's data folder"),
    ] = None
    database_password_file: Annotated[
        Path | None, Field(description="File with the password of the user whom the database's URL names")
    ] = None
    tls_certificate: Annotated[Path | None, Field(description="PEM file; with the key: HTTPS")] = None
    tls_key: Annotated[Path | None, Field(description="PEM file, the certificate's key")] = None
    admin_token: Annotated[
        SecretStr | None, Field(min_length=MIN_SECRET, description="A token with every scope, besides those created")
    ] = None
    read_token: Annotated[
        SecretStr | None, Field(min_length=MIN_SECRET, description="A token that may read, such as Prometheus's")
    ] = None
    admin_token_file: Annotated[Path | None, Field(description="File with the admin's token, in its place")] = None
    read_token_file: Annotated[Path | None, Field(description="File with the read token, in its place")] = None
    rate_per_s: Annotated[FiniteFloat, Field(ge=0, le=1e6, description="Requests of one token per second; 0: any")] = (
        500.0
    )
    rate_burst: Annotated[int, Field(ge=1, le=1_000_000, description="Requests of one token at once")] = 1000
    body_bytes_max: Annotated[int, Field(ge=1024, le=2**30, description="Maximum bytes of a request")] = 1 << 20
    bulk_bytes_max: Annotated[
        int, Field(ge=1024, le=2**30, description="Maximum bytes of a whole log, or an import")
    ] = 32 << 20
    body_timeout_s: Annotated[FiniteFloat, Field(gt=0, le=600, description="Seconds to send a request's body")] = 10.0
    requests_max: Annotated[
        int, Field(ge=1, le=10_000, description="Requests at work or waiting for it; more are answered 503 at once")
    ] = 128
    connections_max: Annotated[
        int, Field(ge=16, le=100_000, description="Connections at a time, as far as the limit on open files allows")
    ] = 2048
    head_timeout_s: Annotated[
        FiniteFloat, Field(gt=0, le=600, description="Seconds to agree on TLS, and to send a request's head")
    ] = 10.0
    events_clients_max: Annotated[
        int, Field(ge=0, le=10_000, description="Listeners to `/v1/events`, and live pages")
    ] = 32
    events_heartbeat_s: Annotated[FiniteFloat, Field(gt=0, le=600, description="Seconds between signs of life")] = 15.0
    cache_entries_max: Annotated[int, Field(ge=0, le=1_000_000, description="Recommendations kept encoded")] = 4096
    cache_ttl_s: Annotated[
        FiniteFloat,
        Field(ge=0, le=60, description="Maximum age in seconds of a cached recommendation or token"),
    ] = 1.0
    session_hours: Annotated[
        FiniteFloat, Field(gt=0, le=8760, description="Hours until a browser has to sign in again")
    ] = 12.0
    session_idle_hours: Annotated[
        FiniteFloat, Field(gt=0, le=8760, description="Hours without a page until a browser has to sign in again")
    ] = 2.0
    sessions_per_token_max: Annotated[
        int, Field(ge=1, le=10_000, description="Browsers signed in with one token; more end those unused for longest")
    ] = 100
    token_rows_per_day: Annotated[
        int,
        Field(
            ge=30,
            le=10**9,
            description="Results, asks and facts of jobs that a token stores in a day; a thirtieth at once",
        ),
    ] = 150_000
    token_bytes_per_day: Annotated[
        int, Field(ge=30, le=2**50, description="Bytes of them, about; a thirtieth at once")
    ] = 256 << 20
    token_jobs_per_day: Annotated[int, Field(ge=1, le=10**9, description="Jobs that a token begins in a day")] = 500
    retention_days: Annotated[
        FiniteFloat | None,
        Field(gt=0, le=36_500, description="Days after which results are deleted, bit by bit; default: never"),
    ] = None
    design_workers: Annotated[
        int, Field(ge=0, le=16, description="Processes of the optimizer; 0: configs that fill the space alone")
    ] = 1
    shutdown_s: Annotated[FiniteFloat, Field(ge=0, le=600, description="Seconds for accepted work to finish")] = 20.0
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="Lowest level written")] = (
        "info"
    )
    log_format: Annotated[
        Literal["text", "json"], Field(description="Format of the log: for people or for machines")
    ] = "text"
    data_home: Annotated[
        Path | None,
        Field(validation_alias="XDG_DATA_HOME", description="The user's data folder, as other programs know it"),
    ] = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources, strongest first: arguments, then the environment."""
        del env_settings, dotenv_settings, file_secret_settings
        return init_settings, _Environment(settings_cls)

    @model_validator(mode="after")
    def _check_tls(self) -> "ServiceSettings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together; give both or neither")
        return self

    _sources: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _slips: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def read(cls, **flags: Any) -> "ServiceSettings":
        """Return the settings, with the secrets that files hold; flags that are None were not given.

        Raises:
            ConfigError: If one is malformed or out of range; it names the setting and its allowed values alone.
                Or if others could have written the file `.env`.
        """
        file = Path(ENV_FILE).absolute()
        given = {name: value for name, value in flags.items() if value is not None}
        file_values = env_file_values(file)
        links = service_links(os.environ)
        environment = {name: value for name, value in os.environ.items() if name not in links}
        in_file, in_environment = _by_setting(file_values), _by_setting(environment)
        from_file = {name: in_file[name] for name in in_file.keys() - given.keys() - in_environment.keys()}
        try:
            settings = cls(**from_file, **given)
            if secrets := settings._secrets_in_files():
                settings = cls(**{**from_file, **given, **secrets})
        except ValidationError as error:
            raise ConfigError(_in_words(error)) from None  # the cause would show the values, of which some are secret
        settings._sources = {
            **dict.fromkeys(from_file, str(file)),
            **dict.fromkeys(in_environment, ENVIRONMENT),
            **dict.fromkeys(given, FLAGS),
        }
        settings._slips = (*_slips(file_values), *_slips(environment), *_mistakable(links))
        return settings

    @property
    def slips(self) -> tuple[str, ...]:
        """A sentence for each variable that is probably a misspelt setting, with the nearest one that there is."""
        return self._slips

    @property
    def has_file(self) -> bool:
        """Return whether any setting came from a file."""
        return not set(self._sources.values()) <= {FLAGS, ENVIRONMENT}

    @property
    def origins(self) -> str:
        """Return the sources of settings that are not defaults, for people and without values; empty without any."""
        places = sorted(set(self._sources.values()), key=lambda place: (place != FLAGS, place != ENVIRONMENT))
        named = (
            (place, [name for name in type(self).model_fields if self._sources.get(name) == place]) for place in places
        )
        return "; ".join(f"{', '.join(names)} from {place}" for place, names in named)

    def _secrets_in_files(self) -> dict[str, str]:
        """Return the settings that files hold, by their names."""
        found = {}
        for name, path in (("admin_token", self.admin_token_file), ("read_token", self.read_token_file)):
            setting = PREFIX + name.upper()
            if path is not None and getattr(self, name) is not None:
                raise ConfigError(f"{setting} and {setting}_FILE are both set; keep one of them")
            if path is not None:
                found[name] = secret_in(path, f"{setting}_FILE")
        if self.database_password_file is not None:
            setting = f"{PREFIX}DATABASE_PASSWORD_FILE"
            url = "" if self.database_url is None else self.database_url.get_secret_value()
            found["database_url"] = with_password(url, secret_in(self.database_password_file, setting), setting)
        return found

    @property
    def fixed_tokens(self) -> Mapping[str, SecretStr]:
        """The tokens that are settings, by the scope that each has."""
        given = {"admin": self.admin_token, "read": self.read_token}
        return {scope: token for scope, token in given.items() if token is not None}

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the service."""
        return is_loopback_host(self.host)

    @property
    def data_file(self) -> Path:
        """Return SQLite's file, unless `database_url` names another database."""
        home = self.data_home if self.data_home and self.data_home.is_absolute() else Path.home() / ".local" / "share"
        return home / "ringtune" / "service.sqlite3"

    @property
    def effective_database_url(self) -> str:
        """The database's URL, with its password."""
        return f"sqlite:///{self.data_file}" if self.database_url is None else self.database_url.get_secret_value()


class _Environment(EnvSettingsSource):
    """The environment without service links, which have the names of settings where a service is called ringtune."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        links = {name.lower() for name in service_links(os.environ)}
        self.env_vars = {name: value for name, value in self.env_vars.items() if name.lower() not in links}


_VARIABLES = {f"{PREFIX}{name}".upper(): name for name in ServiceSettings.model_fields if name != "data_home"} | {
    "XDG_DATA_HOME": "data_home"
}
"""The settings by the variables that set them."""


def _by_setting(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of variables that are not empty by the settings that they set."""
    named = ((_VARIABLES.get(variable.upper()), value) for variable, value in variables.items())
    return {name: value for name, value in named if name is not None and value}


def _slips(variables: Mapping[str, str]) -> tuple[str, ...]:
    unknown = sorted(name for name in variables if name.startswith(PREFIX) and name not in _VARIABLES)
    nearest = ((name, *difflib.get_close_matches(name, _VARIABLES, n=1, cutoff=0.0)) for name in unknown)
    return tuple(f"{name} is no setting of the service; did you mean {meant}?" for name, meant in nearest)


def _mistakable(links: Collection[str]) -> tuple[str, ...]:
    """Return a sentence on service links that have the names of settings; none where there are none."""
    names = [name for name in _VARIABLES if name in links]
    if not names:
        return ()
    verb = "is a service link" if len(names) == 1 else "are service links"
    return (f"{', '.join(names)} {verb} of Kubernetes and not read as settings; choose with --host and --port",)


def is_loopback_host(name: str) -> bool:
    """Tell whether a host name or address, without a port, stands for this machine and for no other."""
    if name in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _in_words(error: ValidationError) -> str:
    problems = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        name = "_".join(str(part) for part in item["loc"])
        problems.append(f"{PREFIX}{name.upper()}: {item['msg']}" if name else item["msg"])
    return f"the service's settings cannot be used: {'; '.join(problems)}; see docs/reference/service.md for the values"
