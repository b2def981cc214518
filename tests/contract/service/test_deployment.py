# SPDX-License-Identifier: Apache-2.0
"""The files that run the service in containers, read as the tools would read them; no container engine is needed."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ringtune.dashboards.grafana import dashboards
from ringtune.service.settings import PREFIX, ServiceSettings

REPOSITORY = Path(__file__).resolve().parents[3]
DOCKERFILE = REPOSITORY / "service" / "Dockerfile"
JOBS = REPOSITORY / "dashboards" / "prometheus" / "jobs"
DIGEST = re.compile(r"[a-z0-9./-]+:v?[0-9][a-z0-9.-]*@sha256:[0-9a-f]{64}")
SECRET_FILE = re.compile(r"/run/secrets/(\w+)")
LOOPBACK_PORT = re.compile(r"\$\{\w+:-127\.0\.0\.1:[0-9]+\}:[0-9]+")
SECRET_NAME = re.compile(r"PASSWORD|TOKEN|SECRET")
INSTRUCTION = re.compile(r"^([A-Z]+) (.+)$")
DURATION = {"type": "string", "pattern": r"^[0-9]+(ms|s|m|h)$"}
NAMES = {"type": "array", "items": {"type": "string"}}
SERVICE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "image",
        "healthcheck",
        "restart",
        "user",
        "read_only",
        "cap_drop",
        "security_opt",
        "mem_limit",
        "pids_limit",
        "tmpfs",
        "volumes",
    ],
    "properties": {
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context", "dockerfile"],
            "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}},
        },
        "image": {"type": "string"},
        "user": {"type": "string", "pattern": r"^(ringtune|[1-9][0-9]*:[0-9]+)$"},
        "mem_limit": {"type": "string", "pattern": r"^[0-9]+[mg]$"},
        "pids_limit": {"type": "integer", "maximum": 1024},
        "command": NAMES,
        "depends_on": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"condition": {"const": "service_healthy"}}},
        },
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": NAMES,
        "read_only": {"const": True},
        "tmpfs": NAMES,
        "cap_drop": {"const": ["ALL"]},
        "security_opt": {"const": ["no-new-privileges:true"]},
        "restart": {"const": "unless-stopped"},
        "stop_grace_period": DURATION,
        "shm_size": {"type": "string"},
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "required": ["test", "interval", "timeout", "retries", "start_period"],
            "properties": {
                "test": {"type": "array", "minItems": 2, "prefixItems": [{"enum": ["CMD", "CMD-SHELL"]}]},
                "interval": DURATION,
                "timeout": DURATION,
                "start_period": DURATION,
                "retries": {"type": "integer", "minimum": 1},
            },
        },
        "extra_hosts": {"const": ["host.docker.internal:host-gateway"]},
        "secrets": NAMES,
        "volumes": NAMES,
    },
}
COMPOSE_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "services", "volumes"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string"},
        "services": {"type": "object", "additionalProperties": SERVICE_SCHEMA},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
        "secrets": {"type": "object", "additionalProperties": {"type": "object", "required": ["file"]}},
    },
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file."""
    content: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8"))
    return content


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, continued lines joined."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    matches = [INSTRUCTION.match(line) for line in text.splitlines()]
    return [(match[1], " ".join(match[2].split())) for match in matches if match is not None]


def test_every_service_is_confined(compose: dict[str, Any]) -> None:
    """No rights, no capabilities, a read-only root, limits, a health check; and no key that compose would not know."""
    jsonschema.validate(compose, COMPOSE_SCHEMA)

    assert {"service", "postgres", "prometheus", "grafana"} == set(compose["services"])


@pytest.mark.parametrize("key", ["user", "read_only", "cap_drop", "security_opt", "mem_limit", "pids_limit"])
@pytest.mark.parametrize("name", ["service", "postgres", "prometheus", "grafana"])
def test_a_service_without_one_of_its_limits_is_noticed(compose: dict[str, Any], name: str, key: str) -> None:
    """The form that is expected has all of them, for each service."""
    service = {other: value for other, value in compose["services"][name].items() if other != key}
    changed = {**compose, "services": {**compose["services"], name: service}}

    with pytest.raises(jsonschema.ValidationError, match=f"'{key}' is a required property"):
        jsonschema.validate(changed, COMPOSE_SCHEMA)


def test_images_are_pinned_by_digest(compose: dict[str, Any]) -> None:
    """A tag may be moved, a digest cannot; our own image is built, from a base that is pinned so."""
    images = {name: service["image"] for name, service in compose["services"].items() if "build" not in service}
    bases = {words.split()[0] for kind, words in instructions() if kind == "FROM"}

    assert {"postgres", "prometheus", "grafana"} == set(images)
    assert 1 == len(bases)
    assert [] == [image for image in (*images.values(), *bases) if not DIGEST.fullmatch(image)]


def parts_of(compose: dict[str, Any], kind: str) -> list[Any]:
    """Return the volumes, ports, secrets or other lists of all services, in one."""
    return [part for service in compose["services"].values() for part in service.get(kind, ())]


def test_the_files_that_compose_names_are_there(compose: dict[str, Any]) -> None:
    """Volumes, files, secrets, services: each that is named exists, and each has a use."""
    mounts = {volume.split(":")[0] for volume in parts_of(compose, "volumes")}
    files = {mount for mount in mounts if mount.startswith(".")}

    assert set(compose["volumes"]) == mounts - files
    assert {True} == {(REPOSITORY / mount).exists() for mount in files}
    assert set(compose["secrets"]) == set(parts_of(compose, "secrets"))
    assert set(parts_of(compose, "depends_on")) <= set(compose["services"])
    assert (REPOSITORY / compose["services"]["service"]["build"]["dockerfile"]) == DOCKERFILE


@pytest.mark.parametrize(("name", "count"), [("service", 3), ("postgres", 1), ("prometheus", 0), ("grafana", 1)])
def test_secrets_are_files(compose: dict[str, Any], name: str, count: int) -> None:
    """No variable holds one, for `docker inspect` shows them; each names the file of a secret that its service has."""
    service = compose["services"][name]
    variables = service.get("environment", {})
    named = [SECRET_FILE.fullmatch(value) for variable, value in variables.items() if SECRET_NAME.search(variable)]

    assert count == len(named)
    assert [] == [match for match in named if match is None or match[1] not in service["secrets"]]
    assert {f"./secrets/{secret}" for secret in service["secrets"]} == {
        compose["secrets"][secret]["file"] for secret in service["secrets"]
    }


def test_the_services_variables_are_settings_that_it_knows(compose: dict[str, Any]) -> None:
    """A misspelt one would be passed over in silence."""
    ours = {name for name in compose["services"]["service"]["environment"] if name.startswith(PREFIX)}

    assert ours <= {f"{PREFIX}{name.upper()}" for name in ServiceSettings.model_fields}


@pytest.mark.parametrize("name", [".gitignore", ".dockerignore"])
def test_the_secrets_stay_out_of_commits_and_images(name: str) -> None:
    """The folder that the documentation makes is ignored by both."""
    assert "/secrets/" in (REPOSITORY / name).read_text(encoding="utf-8").splitlines()


def test_no_port_is_published_beyond_this_machine_by_itself(compose: dict[str, Any]) -> None:
    """Two ports, each on loopback unless a variable says otherwise."""
    ports = parts_of(compose, "ports")

    assert 2 == len(ports)
    assert all(LOOPBACK_PORT.fullmatch(port) for port in ports)


def read_yaml(path: str) -> Any:
    """Return the content of one of the repository's YAML files."""
    return yaml.safe_load((REPOSITORY / path).read_text(encoding="utf-8"))


def mounted(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the files and folders of the repository that a container has, by their path there."""
    mounts = (volume.split(":") for volume in service["volumes"])
    return {mount[1]: mount[0].removeprefix("./") for mount in mounts if mount[0].startswith("./")}


def test_prometheus_scrapes_the_service_with_its_token(compose: dict[str, Any]) -> None:
    """The token's file is where compose puts the secret."""
    job = read_yaml("dashboards/prometheus/prometheus.yml")["scrape_configs"][0]
    (secret,) = compose["services"]["prometheus"]["secrets"]

    assert f"/run/secrets/{secret}" == job["authorization"]["credentials_file"]
    assert f"/run/secrets/{secret}" == compose["services"]["service"]["environment"][f"{PREFIX}READ_TOKEN_FILE"]
    assert [{"targets": ["service:8470"]}] == job["static_configs"]


def test_prometheus_finds_its_rules_and_the_list_of_jobs(compose: dict[str, Any]) -> None:
    """Every file that its config names lies beside it in the container, as in the repository."""
    files = mounted(compose["services"]["prometheus"])
    config = read_yaml(files["/etc/prometheus/prometheus.yml"])

    assert [files["/etc/prometheus/alerts.yml"]] == [f"dashboards/prometheus/{name}" for name in config["rule_files"]]
    (listing,) = config["scrape_configs"][1]["file_sd_configs"]
    assert ["jobs/*.yml"] == listing["files"]
    targets = [read_yaml(f"dashboards/prometheus/jobs/{path.name}") for path in JOBS.glob("*.yml")]
    assert [[{"targets": []}]] == targets
    assert "dashboards/prometheus/jobs" == files["/etc/prometheus/jobs"]


def test_grafana_finds_its_data_source_and_every_dashboard(compose: dict[str, Any]) -> None:
    """The provider looks where compose puts the dashboards; the data source is compose's Prometheus."""
    files = mounted(compose["services"]["grafana"])
    provisioning = files["/etc/grafana/provisioning"]
    (source,) = read_yaml(f"{provisioning}/datasources/prometheus.yml")["datasources"]
    (provider,) = read_yaml(f"{provisioning}/dashboards/ringtune.yml")["providers"]
    shown = {path.rpartition("/")[2]: origin for path, origin in files.items() if path.endswith(".json")}

    assert ("prometheus", "http://prometheus:9090") == (source["type"], source["url"])
    assert {provider["options"]["path"]} == {path.rpartition("/")[0] for path in files if path.endswith(".json")}
    assert {name: f"dashboards/grafana/{name}" for name in dashboards()} == shown


def test_the_image_has_two_stages_and_no_rights() -> None:
    """The compiler stays behind; the service runs as a user of its own; every copied file exists."""
    steps = instructions()
    kinds = [kind for kind, _ in steps]
    last_stage = steps[len(kinds) - kinds[::-1].index("FROM") :]
    run_last = " ".join(words for kind, words in last_stage if kind == "RUN")

    assert 2 == kinds.count("FROM")
    assert [("USER", "ringtune")] == [step for step in last_stage if step[0] == "USER"]
    assert ("CMD", '["ringtune", "serve"]') == last_stage[-1]
    assert not re.search(r"g\+\+|pip", run_last)
    assert {True} == {(REPOSITORY / source).exists() for source in copied()}
    assert {"HEALTHCHECK", "EXPOSE", "VOLUME", "STOPSIGNAL"} <= {kind for kind, _ in last_stage}


def test_the_image_installs_by_hash_alone() -> None:
    """Every pip command has the lock's hashes, or the wheel that was built just before and no index."""
    commands = pip_commands()
    locks = {word for command in commands for word in command.split() if word.startswith("requirements/")}

    assert 5 == len(commands)
    assert [] == [text for text in commands if "--require-hashes" not in text and "--no-index" not in text]
    assert {f"requirements/{name}.txt" for name in ("pip", "build", "service")} == locks


def test_the_image_is_built_with_all_that_cmake_installs() -> None:
    """Sources outside of native/ that are part of the package."""
    text = (REPOSITORY / "native" / "CMakeLists.txt").read_text(encoding="utf-8")
    installing = text.partition("if(RINGTUNE_BINDINGS)")[2].partition("\nendif()")[0]
    needed = set(re.findall(r"/\.\./(\w+)", installing))

    assert needed
    assert needed <= set(copied())


def pip_commands() -> list[str]:
    """Return the calls of pip in the image's steps."""
    runs = [words for kind, words in instructions() if kind == "RUN"]
    return [command for words in runs for command in words.split("&&") if "/pip " in command]


def copied() -> list[str]:
    """Return the paths that the first stage copies from the repository."""
    copies = [words.split() for kind, words in instructions() if kind == "COPY" and not words.startswith("--from")]
    return [source for words in copies for source in words[:-1]]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_dockerfiles_steps_work_in_an_empty_folder(tmp_path: Path) -> None:
    """The package is built and installed from the files that the steps copy, and the service answers."""
    source, target, data = (tmp_path / name for name in ("source", "ringtune", "data"))
    for name in copied():
        origin = REPOSITORY / name
        if origin.is_dir():
            shutil.copytree(origin, source / name, symlinks=True, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        else:
            source.mkdir(exist_ok=True)
            shutil.copy(origin, source / name)
    for install in (words for kind, words in instructions() if kind == "RUN" and "/bin/pip" in words):
        script = install.replace("/srv/", f"{tmp_path}/").replace("python -m venv", f"{sys.executable} -m venv")
        subprocess.run(["sh", "-ec", script], cwd=source, check=True)

    clean = {"PATH": f"{target / 'bin'}:{os.environ['PATH']}", "XDG_DATA_HOME": str(data), "HOME": str(tmp_path)}
    process = subprocess.Popen([target / "bin" / "ringtune", "serve", "--port", "0"], env=clean, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = re.search(rb"http://\S+?:[0-9]+", process.stdout.readline())
        assert url is not None
        with urllib.request.urlopen(f"{url[0].decode()}/readyz", timeout=30) as reply:
            assert {"status": "ok"} == json.load(reply)
    finally:
        process.terminate()
        process.wait(30)
