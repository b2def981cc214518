# SPDX-License-Identifier: Apache-2.0
"""Specs of `deploy/kubernetes`, and a strict check of them against the models that the platforms publish.

The models take unknown fields silently. A spec is therefore read into its model and written again: a field that is
gone was unknown. Kubeflow publishes no model of MPIJob v2beta1, so its few fields stand here; its pods have a model.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from kubeflow_katib_api import models as katib
from kubeflow_trainer_api import models as trainer
from pydantic import ValidationError

from tests.house.source_tree import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "kubernetes"
Document = dict[str, Any]
Check = Callable[[Any, str], Iterator[str]]

_REPLICA = {"replicas": int, "restartPolicy": str, "template": trainer.IoK8sApiCoreV1PodTemplateSpec}
_SCHEDULING = {
    "minAvailable": int,
    "queue": str,
    "minResources": dict,
    "priorityClass": str,
    "scheduleTimeoutSeconds": int,
}
MPI_JOB = {
    "apiVersion": str,
    "kind": str,
    "metadata": trainer.IoK8sApimachineryPkgApisMetaV1ObjectMeta,
    "spec": {
        "slotsPerWorker": int,
        "runLauncherAsWorker": bool,
        "sshAuthMountPath": str,
        "launcherCreationPolicy": {"AtStartup", "WaitForWorkersReady"},
        "mpiImplementation": {"OpenMPI", "Intel", "MPICH"},
        "runPolicy": {
            "cleanPodPolicy": {"All", "Running", "None"},
            "ttlSecondsAfterFinished": int,
            "activeDeadlineSeconds": int,
            "backoffLimit": int,
            "schedulingPolicy": _SCHEDULING,
            "suspend": bool,
            "managedBy": str,
        },
        "mpiReplicaSpecs": {"Launcher": _REPLICA, "Worker": _REPLICA},
    },
}
"""Fields of MPIJob in kubeflow.org/v2beta1, with their types or allowed words, as the MPI operator's API names them."""

MODELS: Mapping[tuple[str, str], Any] = {
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): trainer.TrainerV1alpha1TrainJob,
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): trainer.TrainerV1alpha1TrainingRuntime,
    ("kubeflow.org/v2beta1", "MPIJob"): MPI_JOB,
    ("kubeflow.org/v1beta1", "Experiment"): katib.V1beta1Experiment,
    ("batch/v1", "Job"): trainer.IoK8sApiBatchV1Job,
    ("v1", "Service"): trainer.IoK8sApiCoreV1Service,
}


def documents(name: str) -> list[Document]:
    """Return the documents of a file of `deploy/kubernetes`."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [document for document in yaml.safe_load_all(text) if document is not None]


def document(name: str, kind: str) -> Document:
    """Return the document of a kind, of which the file has one."""
    (found,) = [document for document in documents(name) if document["kind"] == kind]
    return found


def problems(spec: Document) -> list[str]:
    """Return the faults of a spec, each with the path of the field; empty if it is right."""
    key = (str(spec.get("apiVersion")), str(spec.get("kind")))
    if key not in MODELS:
        return [f"apiVersion, kind: {key} is not known"]
    found = list(_check(MODELS[key], spec, ""))
    if spec["kind"] == "Experiment":
        found += [f"trialSpec: {problem}" for problem in problems(spec["spec"]["trialTemplate"]["trialSpec"])]
    return found


def _check(model: Any, value: Any, path: str) -> Iterator[str]:
    if isinstance(model, set):
        if value not in model:
            yield f"{path}: {value!r} is none of {sorted(model)}"
    elif isinstance(model, Mapping):
        yield from _check_fields(model, value, path)
    elif model in {int, str, bool, dict}:
        if type(value) is not model:
            yield f"{path}: {value!r} is no {model.__name__}"
    else:
        yield from _check_by_model(model, value, path)


def _check_fields(fields: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} has no fields"
        return
    for name, part in value.items():
        if name in fields:
            yield from _check(fields[name], part, f"{path}.{name}")
        else:
            yield f"{path}.{name}: unknown field"


def _check_by_model(model: Any, value: Any, path: str) -> Iterator[str]:
    """Read a value into a model that was generated from a schema, write it again, and compare."""
    try:
        read = model.from_dict(value)
    except ValidationError as error:
        for problem in error.errors():
            yield f"{path}.{'.'.join(map(str, problem['loc']))}: {problem['msg']} ({problem['input']!r})"
        return
    yield from _lost(value, read.to_dict(), path)


def _lost(given: Any, kept: Any, path: str) -> Iterator[str]:
    """Yield the fields that a round trip has dropped."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, part in given.items():
            if name in kept:
                yield from _lost(part, kept[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}: unknown field"
    elif isinstance(given, list) and isinstance(kept, list):
        for number, (part, other) in enumerate(zip(given, kept, strict=True)):
            yield from _lost(part, other, f"{path}[{number}]")
    elif given != kept:
        yield f"{path}: {given!r} became {kept!r}"
