# SPDX-License-Identifier: Apache-2.0
"""`ringtune serve`, `token`, `export` and `import`: the operator's commands, which work on the database itself.

So tokens can be made before anybody may call, and an archive can be taken while the service is stopped.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ringtune.errors import ConfigError
from ringtune.system.counts import age_in_days, counted
from ringtune.system.whole_file import PRIVATE_MODE, whole_file

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="Default: RINGTUNE_SERVICE_DATABASE_URL, or SQLite in a file."),
]
SCOPES = ("read", "report", "admin")

token_app = typer.Typer(help="Say who may use the service.", no_args_is_help=True, rich_markup_mode=None)


def add_commands(app: typer.Typer, make_pages: Callable[[], Any] | None = None) -> None:
    """Mount the commands.

    Args:
        app: The command line.
        make_pages: Makes the web pages of `serve` (`ringtune.service.api.pages.Pages`); None for an API alone.
    """
    app.command()(_serve_command(make_pages))
    app.add_typer(token_app, name="token")
    app.command("export")(export_archive)
    app.command("import")(import_archive)


def _serve_command(make_pages: Callable[[], Any] | None) -> Callable[..., int]:
    """Return `ringtune serve` with these pages."""

    def serve(
        *,
        host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1]; others need a token.")] = None,
        port: Annotated[int | None, typer.Option(help="Port [8470]; 0: any free one.")] = None,
        database_url: DatabaseUrl = None,
        tls_certificate: Annotated[
            Path | None, typer.Option(metavar="FILE", help="PEM; with --tls-key: HTTPS.")
        ] = None,
        tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="PEM.")] = None,
        log_format: Annotated[
            str | None, typer.Option(metavar="text|json", help="Format of the log on stderr.")
        ] = None,
    ) -> int:
        """Run the shared service: it remembers the findings of tuning runs and gives every job the best known start."""
        settings = _settings(
            host=host,
            port=port,
            database_url=database_url,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            log_format=log_format,
        )
        with _of_the_extra():
            from .serving import serve as serve_forever  # noqa: PLC0415  (each command has its own imports)

            pages = None if make_pages is None else make_pages()
        serve_forever(settings, announce=_say, pages=pages)
        return 0

    return serve


@token_app.command("create")
def create_token(
    *,
    name: Annotated[str, typer.Option(help="Name of the token's holder.")],
    scopes: Annotated[
        list[str] | None, typer.Option("--scope", metavar="read|report|admin", help="Repeatable [read, report].")
    ] = None,
    many_jobs: Annotated[
        bool, typer.Option("--many-jobs", help="Its jobs are independent and count one by one as evidence.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> int:
    """Create a token and print its secret, this once."""
    wanted = scopes or ["read", "report"]
    unknown = sorted(set(wanted) - set(SCOPES))
    if unknown:
        raise ConfigError(f"--scope {unknown[0]} is not known; allowed: {', '.join(SCOPES)}")
    with _service(database_url) as service:
        _, secret = service.tokens.create(name, frozenset(wanted), has_many_jobs=many_jobs)
    typer.echo(secret)
    return 0


@token_app.command("list")
def list_tokens(*, database_url: DatabaseUrl = None) -> int:
    """List all tokens, without their secrets."""
    with _service(database_url) as service:
        tokens = service.tokens.list()
    for token in tokens:
        state = "revoked" if token.is_revoked else "valid"
        scopes = ",".join(scope for scope in SCOPES if scope in token.scopes)
        jobs = "  many jobs" if token.has_many_jobs else ""
        age = age_in_days(token.age_s)
        typer.echo(f"{token.token_id}  {state:<7}  {scopes:<17}  {age:>12}  {token.name}{jobs}")
    return 0


@token_app.command("revoke")
def revoke_token(
    *,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, from ringtune token list.")],
    database_url: DatabaseUrl = None,
) -> int:
    """Revoke a token; a running service refuses it within three seconds."""
    with _service(database_url) as service:
        service.tokens.revoke(token_id)
    return 0


@token_app.command("change")
def change_token(
    *,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, from ringtune token list.")],
    many_jobs: Annotated[
        bool,
        typer.Option("--many-jobs/--one-reporter", help="Its jobs count as evidence one by one, or together once."),
    ],
    database_url: DatabaseUrl = None,
) -> int:
    """Change how a token's jobs count, those that it reported already included."""
    with _service(database_url) as service:
        service.token_results.declare(token_id, has_many_jobs=many_jobs)
    return 0


@token_app.command("delete-results")
def delete_results(
    *,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, from ringtune token list.")],
    database_url: DatabaseUrl = None,
) -> int:
    """Delete all that was reported with a token; the token itself stays, until it is revoked."""
    with _service(database_url) as service:
        removed = service.token_results.delete(token_id)
    typer.echo(f"{counted(removed, 'result')} deleted")
    return 0


def export_archive(
    *,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="JSON Lines; default: standard output.")] = None,
    database_url: DatabaseUrl = None,
) -> int:
    """Write all studies and results as JSON Lines."""
    with _service(database_url) as service:
        if file is None:
            for line in service.archive.export():
                sys.stdout.write(_line(line))
            return 0
        try:
            with whole_file(file, PRIVATE_MODE, is_new=True, is_synced=True) as out:  # it names jobs, models, machines
                out.writelines(_line(line).encode() for line in service.archive.export())
        except OSError as error:
            raise ConfigError(f"{file} cannot be written ({error.strerror}); name a file that is not there") from error
    return 0


def import_archive(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that ringtune export wrote.")],
    database_url: DatabaseUrl = None,
) -> int:
    """Store the lines of an export; rows that are there already stay as they are."""
    with _service(database_url) as service:
        try:
            with file.open(encoding="utf-8") as lines:
                taken = service.archive.take(line for line in lines if line.strip())
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read ({error}); give a file of ringtune export") from error
    told = f"{counted(taken.studies, 'study')} and {counted(taken.results, 'result')} taken"
    typer.echo(f"{told}, {taken.same} of both there before")
    return 0


@contextmanager
def _of_the_extra() -> Iterator[None]:
    """Name the extra to install where a package that only the service needs is missing.

    Raises:
        ConfigError: If one is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "ringtune"}:
            raise
        raise ConfigError(
            f"the package {missing} is not installed: the service needs it, jobs do not; "
            "install what the service needs with: pip install 'ringtune[service]'"
        ) from error


def _settings(**flags: Any) -> Any:
    with _of_the_extra():
        from .settings import ServiceSettings  # noqa: PLC0415  (each command has its own imports)

    return ServiceSettings.read(**flags)


@contextmanager
def _service(database_url: str | None) -> Iterator[Any]:
    """Open the database of the settings, at this program's schema.

    Raises:
        StoreError: If it cannot be used, or a call on it fails.
    """
    with _of_the_extra():
        from .domain.policy import ServiceLimits  # noqa: PLC0415  (each command has its own imports)
        from .domain.service import Service  # noqa: PLC0415
        from .serving import prepare_data_folder, store_errors  # noqa: PLC0415
        from .store.database import Database  # noqa: PLC0415

    settings = _settings(database_url=database_url)
    told = [f"settings: {settings.origins}"] if settings.has_file else []
    for line in (*told, *(f"warning: {slip}" for slip in settings.slips)):
        typer.echo(f"ringtune: {line}", err=True)  # standard output is for a secret, or an archive
    prepare_data_folder(settings)
    with store_errors():
        service = Service(Database.open(settings.effective_database_url), policy=ServiceLimits(design_workers=0))
        try:
            service.migrate()
            yield service
        finally:
            service.close()


def _line(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n"


def _say(text: str) -> None:
    typer.echo(text)
    sys.stdout.flush()
