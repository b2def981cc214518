# SPDX-License-Identifier: Apache-2.0
"""`ringtune push` and `ringtune recommend`: results to the service, advice from it or from this machine's own runs."""

import json
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ringtune.errors import ConfigError, StoreError
from ringtune.system.counts import counted
from ringtune.system.printable import printable

if TYPE_CHECKING:
    from ringtune.client import Recommendation, ServiceClient
    from ringtune.tuner.logs.reader import RunLog
    from ringtune.tuning.service_link.local_studies import StudyQuery

FORMATS = ("table", "json", "env", "horovod")
HARDWARE_NAME = "RINGTUNE_HARDWARE"
URL_NAME, TOKEN_NAME, CACHE_NAME = "AUTOTUNE_SERVICE_URL", "AUTOTUNE_SERVICE_TOKEN", "AUTOTUNE_CACHE"
FINGERPRINT_DIGITS = 64
ANY = "any"
"""Value of --hardware that takes measurements of any hardware."""
MAX_NAMES = 20
"""Known models that are named where the one that was asked for is not known."""
MAX_STUDIES = 200
"""Studies of the service that are looked through for the names of its models."""
PUSH_LIMIT_S = 60.0
PUSH_REPLY_BYTES = 1 << 20

ServiceUrl = Annotated[str | None, typer.Option("--service-url", metavar="URL", help=f"Default: {URL_NAME}.")]


def add_commands(app: typer.Typer) -> None:
    """Mount the commands."""
    app.command()(push)
    app.command()(recommend)


def push(
    *,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Tuning logs, as AUTOTUNE_LOG wrote them.")],
    service_url: ServiceUrl = None,
) -> int:
    """Report tuning logs to the service. Results that it has already are not counted twice.

    Example: ringtune push tune.jsonl --service-url http://tuning:8470
    """
    client = _client(service_url)
    if client is None:
        raise ConfigError(f"there is no service to report to; set {URL_NAME}, or give --service-url")
    is_whole = [_push_log(client, path) for path in logs]
    return 0 if all(is_whole) else 1


def _say(text: str, *, is_fault: bool = False) -> None:
    """Print a line, on stderr if something is wrong; ids and reasons in it are others'."""
    typer.echo(printable(text), err=is_fault)


def _push_log(client: "ServiceClient", path: Path) -> bool:
    """Report the runs of a log; return whether all that is in it is there now."""
    from ringtune.tuner import read_log  # noqa: PLC0415
    from ringtune.tuning.service_link.results import first_runs  # noqa: PLC0415  (each command imports what it needs)

    try:
        contents = read_log(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give the path of a tuning log") from error
    if contents.bad_line_count:
        _say(f"{path}: left out {counted(contents.bad_line_count, 'line')} without a record", is_fault=True)
    if not contents.runs:
        _say(f"{path}: there is no run in it", is_fault=True)
    first = first_runs(contents.runs)
    if later := len(contents.runs) - len(first):
        _say(f"{path}: left out {counted(later, 'later run')} of these jobs: a job is told by its first run")
    is_whole = [_push_run(client, path, run) for run in first]
    return bool(is_whole) and all(is_whole)


def _push_run(client: "ServiceClient", path: Path, log: "RunLog") -> bool:
    """Report one run and print the service's answer; return whether all of the run is stored there now."""
    from ringtune.tuner import Phase  # noqa: PLC0415
    from ringtune.tuner.logs.records import record_to_json  # noqa: PLC0415
    from ringtune.tuning.service_link.results import job_uuid  # noqa: PLC0415  (each command imports what it needs)

    if log.run is None:
        _say(f"{path}: run {log.run_id[:40]!r} has lost its first line and cannot be reported", is_fault=True)
        return False
    if not log.run.key.get("layout"):
        _say(f"{path}: run {log.run_id[:40]!r} tuned a command; the service keeps runs of engines only", is_fault=True)
        return False
    samples = [sample for sample in log.samples if sample.phase != Phase.WATCH]
    records = [record for record in (log.run, *samples, log.adoption, log.result, log.end) if record is not None]
    stored = client.push_run([record_to_json(record) for record in records], job_uuid(log.run_id))
    _say(
        f"{path}: run {log.run_id}: {counted(stored.new, 'new result')}, {stored.same} there before, "
        f"{stored.quarantined} kept and not used"
    )
    if stored.reason:
        _say(f"{path}: run {log.run_id}: {stored.reason}", is_fault=True)
    return not stored.reason


def recommend(
    *,
    model: Annotated[str, typer.Option(help="Model's name (AUTOTUNE_MODEL), or its fingerprint from the log's key.")],
    world_size: Annotated[int, typer.Option(min=1, help="Number of ranks.")],
    local_size: Annotated[int | None, typer.Option(min=1, help="Ranks on each host; default: all on one.")] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            help=f"Fingerprint, as ringtune doctor --fingerprint prints it; {ANY}: any. Default: this machine."
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(help="Engine to be set: ringtune, openmpi, mpich, nccl or horovod.")
    ] = "ringtune",
    output: Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="Output format.")] = "table",
    service_url: ServiceUrl = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of finished runs to ask instead of a service.")
    ] = None,
) -> int:
    """Print the config that a job should start with, and the evidence for it.

    The service is asked; without one, the finished runs of this machine.

    Example: ringtune recommend --model resnet50 --world-size 64 --local-size 8 --format env
    """
    from ringtune.tuning.service_link.local_studies import StudyQuery  # noqa: PLC0415  (each command imports what it needs)

    if output not in FORMATS:
        raise ConfigError(f"--format {output} is not known; known are {', '.join(FORMATS)}")
    _check_target(target)
    if local_size is not None and local_size > world_size:
        raise ConfigError(f"--local-size {local_size} is more than the {world_size} ranks of --world-size")
    query = StudyQuery(model, world_size, local_size or world_size, _hardware(hardware), target)
    client = None if cache is not None else _client(service_url)
    offer = _from_cache(cache, query) if client is None else _from_service(client, query)
    if offer.candidates and output != "json":
        raise StoreError(_ambiguous_text(offer))
    _print(offer, output)
    return 0


def _check_target(target: str) -> None:
    """Raise ConfigError for an engine that has no config to recommend."""
    from ringtune.commands.ready_settings import ENGINE_TARGET  # noqa: PLC0415
    from ringtune.tuning.command.engines import engine_names  # noqa: PLC0415  (each command imports what it needs)

    known = (ENGINE_TARGET, *engine_names())
    if target not in known:
        raise ConfigError(f"--target {target} is not known; known are {', '.join(known)}")


def _is_fingerprint(text: str) -> bool:
    return len(text) == FINGERPRINT_DIGITS and set(text) <= set("0123456789abcdef")


def _hardware(given: str | None) -> str | None:
    """Return the fingerprint to ask for: the given one, None for any, or this machine's."""
    from ringtune.identity.fingerprints import hardware_facts, hardware_fingerprint, machine_facts  # noqa: PLC0415  (as above)

    if given is None:
        return hardware_fingerprint(hardware_facts([machine_facts()], "shm"), _environment().get(HARDWARE_NAME))
    if given != ANY and not _is_fingerprint(given):
        raise ConfigError(
            f"--hardware {given} is no fingerprint; give one as ringtune doctor --fingerprint prints it, or {ANY}"
        )
    return None if given == ANY else given


def _check_is_known(model: str, names: Collection[str]) -> None:
    """Raise StoreError for an unknown model.

    Raises:
        StoreError: If there is none; the message lists the names that there are.
    """
    if model not in names:
        known = ", ".join(sorted(names)[:MAX_NAMES]) or "none yet"
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        raise StoreError(f"no study of a model named {model[:100]!r}; there are: {known}{more}")


def _client(service_url: str | None) -> "ServiceClient | None":
    """Return a client of the service, None where there is none."""
    environ = _environment()
    url = service_url or environ.get(URL_NAME)
    if not url:
        return None
    from ringtune.client import ExchangeLimits, ServiceClient  # noqa: PLC0415  (httpx is for those who have a service)

    return ServiceClient(url, environ.get(TOKEN_NAME) or None, ExchangeLimits(PUSH_LIMIT_S, PUSH_REPLY_BYTES))


def _environment() -> Mapping[str, str]:
    from ringtune.meeting.bootstrap import environment  # noqa: PLC0415  (each command imports what it needs)

    return environment()


def _from_service(client: "ServiceClient", query: "StudyQuery") -> "Recommendation":
    is_fingerprint = _is_fingerprint(query.model)
    offer = client.recommendation(
        model=None if is_fingerprint else query.model,
        model_fingerprint=query.model if is_fingerprint else None,
        hardware=query.hardware,
        world_size=query.world_size,
        local_size=query.local_size,
        target=query.target,
    )
    is_open = offer.source == "default" and not offer.candidates and not is_fingerprint
    if is_open and not client.studies(limit=1, model=query.model).items:
        names = {study.model_name for study in client.studies(limit=MAX_STUDIES).items if study.model_name}
        _check_is_known(query.model, names)
    return offer


def _from_cache(cache: Path | None, query: "StudyQuery") -> "Recommendation":
    from ringtune.system.cache_files import user_cache_folder  # noqa: PLC0415
    from ringtune.tuner import StudyStore  # noqa: PLC0415
    from ringtune.tuning.job.memory import FILE_NAME, OFF  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.tuning.service_link.local_studies import model_names, recommend_from  # noqa: PLC0415

    environ = _environment()
    setting = environ.get(CACHE_NAME)
    path = cache or (Path(setting) if setting and setting != OFF else user_cache_folder(environ) / FILE_NAME)
    try:
        runs = StudyStore(path).runs()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); give --cache FILE, or set {URL_NAME}") from error
    offer = recommend_from(runs, query, time.time())
    if offer.source == "default" and not offer.candidates:
        fingerprints = {str(log.run.key.get("model")) for log in runs if log.run is not None}
        if query.model not in fingerprints:
            _check_is_known(query.model, model_names(runs))
    return offer


def _print(offer: "Recommendation", output: str) -> None:
    from ringtune._engine import allreduce_algorithms  # noqa: PLC0415  (each command imports what it needs)
    from ringtune.commands import ready_settings as ready  # noqa: PLC0415
    from ringtune.shared_service.advice.wording import evidence_text  # noqa: PLC0415

    config = ready.checked_config(offer, allreduce_algorithms())
    pasted, notes = ready.pasted_config(offer, config), [evidence_text(offer), offer.reason or ""]
    if output == "json":
        typer.echo(json.dumps(offer.model_dump(mode="json"), indent=2))
    elif output == "env":
        variables = ready.engine_variables(pasted, offer.target)
        typer.echo(ready.shell_text(variables, *notes, ready.advice_text(offer), ready.file_text(pasted, offer.target)))
    elif output == "horovod":
        variables = ready.horovod_variables(pasted, offer.target)
        typer.echo(ready.shell_text(variables, *notes, ready.advice_text(offer, is_for_horovod=True)))
    else:
        _print_table(config, [*notes, ready.advice_text(offer)])


def _print_table(config: Mapping[str, Any], notes: list[str]) -> None:
    from rich.console import Console  # noqa: PLC0415  (each command imports what it needs)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from ringtune.tuner import readable_value  # noqa: PLC0415

    table = Table("parameter", "value")
    for name, value in config.items():
        table.add_row(Text(name), Text(printable(readable_value(name, value))))
    console = Console()
    console.print(table)
    for note in filter(None, notes):
        console.print(Text(printable(note)))


def _ambiguous_text(offer: "Recommendation") -> str:
    named = ", ".join(
        f"{item.model_fingerprint[:FINGERPRINT_DIGITS]} ({counted(item.trials, 'trial')})" for item in offer.candidates
    )
    return f"several models go by this name; ask again with one of these as --model: {named}"
