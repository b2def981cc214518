# SPDX-License-Identifier: Apache-2.0
"""The specs of `deploy/kubernetes` against the models and tools of their platforms."""

import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.source_tree import REPOSITORY
from tests.platforms.kubernetes.specs import FOLDER, document, documents, problems

POLYAXON = "polyaxon==2.18.0"
SPECS = sorted(path.name for path in FOLDER.glob("*.yaml"))
POLYAXONFILES = sorted((FOLDER / "polyaxon").glob("*.yaml"))
SPEC_OF_POD = "spec.template.spec"
LAUNCHER = "spec.mpiReplicaSpecs.Launcher"


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_has_known_fields_alone(name: str) -> None:
    """Every field is one of its kind's, with a value of its type."""
    found = documents(name)

    assert found
    assert [] == [problem for spec in found for problem in problems(spec)]


@pytest.mark.parametrize(
    ("name", "kind", "field", "value", "words"),
    [
        ("trainjob-torch.yaml", "TrainJob", "spec.trainer.numNodez", 2, ".spec.trainer.numNodez: unknown field"),
        ("trainjob-torch.yaml", "TrainJob", "spec.trainer.numNodes", "2", "numNodes: Input should be a valid integer"),
        ("trainjob-torch.yaml", "TrainJob", "spec.trainer.command", "python", "command: Input should be a valid list"),
        ("trainjob-mpi.yaml", "TrainingRuntime", "spec.mlPolicy.mpi.slots", 2, ".spec.mlPolicy.mpi.slots: unknown"),
        ("trainjob-mpi.yaml", "TrainingRuntime", "spec.template.spec.network.dns", 1, ".network.dns: unknown field"),
        ("mpijob.yaml", "MPIJob", "spec.slots", 2, ".spec.slots: unknown field"),
        ("mpijob.yaml", "MPIJob", "spec.slotsPerWorker", "2", ".spec.slotsPerWorker: '2' is no int"),
        ("mpijob.yaml", "MPIJob", "spec.launcherCreationPolicy", "Later", "'Later' is none of ['AtStartup'"),
        (
            "mpijob.yaml",
            "MPIJob",
            f"{LAUNCHER}.template.spec.subdomains",
            "a",
            "Launcher.template.spec.subdomains: unk",
        ),
        ("indexed-job.yaml", "Job", "spec.completionsMode", "Indexed", ".spec.completionsMode: unknown field"),
        ("indexed-job.yaml", "Job", f"{SPEC_OF_POD}.containers.0.envs", [], ".containers[0].envs: unknown field"),
        ("indexed-job.yaml", "Service", "spec.clusterIp", "None", ".spec.clusterIp: unknown field"),
        ("katib-experiment.yaml", "Experiment", "spec.parallelTrials", 1, ".spec.parallelTrials: unknown field"),
        (
            "katib-experiment.yaml",
            "Experiment",
            "spec.trialTemplate.trialSpec.spec.retries",
            1,
            "spec.retries: unknown",
        ),
        ("katib-experiment.yaml", "Experiment", "apiVersion", "kubeflow.org/v1", "'Experiment') is not known"),
    ],
)
def test_a_wrong_field_is_named(name: str, kind: str, field: str, value: Any, words: str) -> None:
    """The check that the specs pass is one that they can fail."""
    spec = copy.deepcopy(document(name, kind))
    *parents, last = field.split(".")
    place: Any = spec
    for part in parents:
        place = place[int(part) if part.isdigit() else part]
    place[last] = value

    found = problems(spec)

    assert 1 == len(found), found
    assert words in found[0]


def test_katibs_experiment_refers_to_what_it_searches() -> None:
    """Every parameter reaches the trial's environment, and the trial prints the objective."""
    spec = document("katib-experiment.yaml", "Experiment")["spec"]
    template = spec["trialTemplate"]
    (container,) = template["trialSpec"]["spec"]["template"]["spec"]["containers"]
    used = re.findall(r"\$\{trialParameters\.(\w+)\}", yaml.safe_dump(template["trialSpec"]))

    assert sorted(used) == sorted(parameter["name"] for parameter in template["trialParameters"])
    assert {parameter["name"] for parameter in spec["parameters"]} == {
        parameter["reference"] for parameter in template["trialParameters"]
    }
    assert container["name"] == template["primaryContainerName"]


def test_the_page_applies_the_specs_that_there_are() -> None:
    """Every `kubectl apply` names a file, and the Secret that a page makes is the one that the specs read."""
    text = "".join(
        (REPOSITORY / "docs" / "howto" / f"{page}.md").read_text("utf-8") for page in ("kubernetes", "katib")
    )
    applied = set(re.findall(r"kubectl apply -f deploy/kubernetes/(\S+)", text))
    made = re.findall(r"kubectl create secret generic (\S+) --from-literal=(\w+)=", text)
    read = {tuple(found) for name in SPECS for found in secrets_of(documents(name))}

    assert applied == set(SPECS)
    assert read == set(made)


def secrets_of(place: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and keys of the Secrets that a spec reads."""
    if isinstance(place, dict):
        if "secretKeyRef" in place:
            yield place["secretKeyRef"]["name"], place["secretKeyRef"]["key"]
        for part in place.values():
            yield from secrets_of(part)
    elif isinstance(place, list):
        for part in place:
            yield from secrets_of(part)


@pytest.mark.long
def test_polyaxonfiles_are_what_polyaxon_takes(tmp_path: Path) -> None:
    """Polyaxon's own check, from an environment of its own, takes the files and refuses a wrong field in them."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    subprocess.run([str(tmp_path / "venv" / "bin" / "pip"), "install", "-q", POLYAXON], check=True)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(POLYAXONFILES[0].read_text(encoding="utf-8").replace("command:", "comand:"), encoding="utf-8")

    checks = {
        path: subprocess.run(
            [str(tmp_path / "venv" / "bin" / "polyaxon"), "check", "-f", str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        for path in (*POLYAXONFILES, wrong)
    }

    for path in POLYAXONFILES:
        assert "Polyaxonfile valid" in checks[path].stdout, checks[path]
    assert "'comand'" in checks[wrong].stdout.replace("\n", " "), checks[wrong]
