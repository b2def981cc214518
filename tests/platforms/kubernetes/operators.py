# SPDX-License-Identifier: Apache-2.0
"""Pods that a cluster would make of a spec: their names, and the variables and files that operators put into them.

Written from the operators' sources: Kubeflow Trainer 2.3 (torch and MPI policy), MPI operator 0.6 (MPIJob v2beta1), the
Job controller of Kubernetes, and FfDL's learners. No code here knows ringtune.
"""

import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMESPACE = "default"
Environment = dict[str, str]
Spec = Mapping[str, Any]
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
DISCOVERY = "/etc/mpi/discover_hosts.sh"
_OPEN_MPI = {
    "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
}


@dataclass(frozen=True)
class File:
    """A file that a volume brings into a pod; its owner is root, its group that of the pod."""

    text: str
    mode: int = 0o444


@dataclass(frozen=True, eq=False)
class Pod:
    """One pod of one container.

    Attributes:
        name: Its host name.
        names: Names by which the cluster's name service knows it.
        command: Command of its container.
        environment: Variables of its container.
        files: Files that are mounted, by their path.
        is_server: Whether it runs until it is ended; others end by themselves.
    """

    name: str
    names: Sequence[str]
    command: Sequence[str]
    environment: Environment = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    is_server: bool = False


def torch_policy(job: Spec) -> list[Pod]:
    """Return the pods of a TrainJob under the runtime `torch-distributed`."""
    name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
    pods = []
    for number in range(trainer["numNodes"]):
        injected = {
            "PET_NNODES": str(trainer["numNodes"]),
            "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
            "PET_NODE_RANK": str(number),
            "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
            "PET_MASTER_PORT": "29500",
            "JOB_COMPLETION_INDEX": str(number),
        }
        host = f"{name}-node-0-{number}"
        pods.append(Pod(host, _names(host, name), _command(trainer), {**_variables(trainer), **injected}))
    return pods


def mpi_policy(runtime: Spec, job: Spec) -> list[Pod]:
    """Return the pods of a TrainJob under a TrainingRuntime with the MPI policy, the launcher as a node; it is last."""
    name, trainer = job["metadata"]["name"], job["spec"]["trainer"]
    policy = runtime["spec"]["mlPolicy"]["mpi"]
    assert policy["runLauncherAsNode"]
    slots = trainer["numProcPerNode"]
    containers = {
        part["name"]: part["template"]["spec"]["template"]["spec"]["containers"][0]
        for part in runtime["spec"]["template"]["spec"]["replicatedJobs"]
    }
    hosts = [f"{name}-node-0-{number}" for number in range(max(trainer["numNodes"] - 1, 1))]
    launcher = f"{name}-launcher-0-0"
    hostfile = "".join(f"{host}.{name} slots={slots}\n" for host in [*hosts, launcher])
    keys = _ssh_files(policy["sshAuthMountPath"], 0o640)
    environment = {**_OPEN_MPI, "OMPI_MCA_orte_set_default_slots": str(slots), **_variables(trainer)}
    return [
        *(Pod(host, _names(host, name), _command(containers["node"]), {}, keys, is_server=True) for host in hosts),
        Pod(
            launcher,
            _names(launcher, name),
            _command(trainer),
            environment,
            {**keys, "/etc/mpi/hostfile": File(hostfile)},
        ),
    ]


def mpi_job(job: Spec) -> list[Pod]:
    """Return the pods of an MPIJob; the launcher is last."""
    name, spec = job["metadata"]["name"], job["spec"]
    launcher, worker = (
        spec["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0] for role in ("Launcher", "Worker")
    )
    keys = _ssh_files(spec["sshAuthMountPath"], 0o644)
    hosts = [f"{name}-worker-{number}" for number in range(spec["mpiReplicaSpecs"]["Worker"]["replicas"])]
    addresses = [_address(host, name) for host in hosts]
    hostfile = "".join(f"{address} slots={spec['slotsPerWorker']}\n" for address in addresses)
    environment = {
        **_variables(launcher),
        "K_MPI_JOB_ROLE": "launcher",
        **_OPEN_MPI,
        "OMPI_MCA_orte_set_default_slots": str(spec["slotsPerWorker"]),
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
    }
    config = {"/etc/mpi/hostfile": File(hostfile), DISCOVERY: discovery(job, [])}
    role = {"K_MPI_JOB_ROLE": "worker"}
    return [
        *(
            Pod(host, _names(host, name), _command(worker), {**_variables(worker), **role}, keys, is_server=True)
            for host in hosts
        ),
        Pod(f"{name}-launcher", _names(f"{name}-launcher", name), _command(launcher), environment, {**keys, **config}),
    ]


def discovery(job: Spec, running: Iterable[Pod]) -> File:
    """Return the script that the MPI operator keeps up to date in the launcher: it prints the workers that run."""
    addresses = [_address(pod.name, job["metadata"]["name"]) for pod in running]
    return File("#!/bin/sh\n" + "".join(f"echo {address}\n" for address in addresses), 0o555)


def jobs(specs: Iterable[Spec], values: Mapping[tuple[str, str], str]) -> list[Pod]:
    """Return the pods of Jobs of Kubernetes' own, Indexed or not.

    Args:
        specs: Jobs and Services; a Service's name leads to each pod that it selects.
        values: Contents of the Secrets, by their name and key.
    """
    specs = list(specs)
    services = [spec for spec in specs if spec["kind"] == "Service"]
    return [
        pod
        for job in specs
        if job["kind"] == "Job"
        for number in range(job["spec"].get("parallelism", 1))
        for pod in [_pod_of(job, number, services, values)]
    ]


def _pod_of(job: Spec, number: int, services: Sequence[Spec], values: Mapping[tuple[str, str], str]) -> Pod:
    template, name = job["spec"]["template"], job["metadata"]["name"]
    container = template["spec"]["containers"][0]
    labels = {**template.get("metadata", {}).get("labels", {}), "job-name": name}
    is_indexed = job["spec"].get("completionMode") == "Indexed"
    host = f"{name}-{number}" if is_indexed else f"{name}-{secrets.token_hex(3)[:5]}"
    names = [
        service["metadata"]["name"]
        for service in services
        if service["spec"]["selector"].items() <= labels.items() and "subdomain" not in template["spec"]
    ]
    if "subdomain" in template["spec"] and is_indexed:
        names += _names(host, template["spec"]["subdomain"])
    fields = {_INDEX_FIELD: str(number), "metadata.name": host}
    environment = _variables(container, fields, values)
    if is_indexed:
        environment["JOB_COMPLETION_INDEX"] = str(number)
    return Pod(host, names, _command(container), environment)


def learners(manifest: Spec, data: str) -> list[Pod]:
    """Return FfDL's pods for a manifest with the framework `custom`.

    Args:
        manifest: The manifest.
        data: Content of the file `job_key` in the training data.
    """
    prefix, count = "learner-a1b2c3", int(manifest["learners"])
    folder = "/mnt/data/training_data"
    pods = []
    for number in range(count):
        environment = {
            "LEARNER_ID": str(number + 1),
            "NUM_LEARNERS": str(count),
            "LEARNER_NAME_PREFIX": prefix,
            "DATA_DIR": folder,
            "RESULT_DIR": "/mnt/results/trained_models",
        }
        host = f"{prefix}-{number}"
        command = ["sh", "-c", manifest["framework"]["command"]]
        pods.append(Pod(host, _names(host, prefix), command, environment, {f"{folder}/job_key": File(data)}))
    return pods


def _address(host: str, service: str) -> str:
    return f"{host}.{service}.{NAMESPACE}.svc"


def _names(host: str, service: str) -> list[str]:
    """Return the names of a pod behind a headless service, as the search domains of a pod complete them."""
    short = f"{host}.{service}"
    return [short, f"{short}.{NAMESPACE}.svc", f"{short}.{NAMESPACE}.svc.cluster.local"]


def _command(container: Spec) -> list[str]:
    return [*container["command"], *container.get("args", [])]


def _variables(
    container: Spec, fields: Mapping[str, str] | None = None, values: Mapping[tuple[str, str], str] | None = None
) -> Environment:
    """Return a container's own variables; `$(NAME)` means one that stands before it."""
    found: Environment = {}
    for variable in container.get("env", []):
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            value = (fields or {})[source["fieldRef"]["fieldPath"]]
        elif "secretKeyRef" in source:
            value = (values or {})[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
        else:
            value = variable["value"]
        found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found.get(match[1], match[0]), value)
    return found


def _ssh_files(folder: str, mode: int) -> dict[str, File]:
    """Return the key pair that an operator makes for a job, as it is mounted in every pod."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "key"
        command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", str(path)]
        subprocess.run(command, check=True)
        private, public = path.read_text("utf-8"), path.with_suffix(".pub").read_text("utf-8")
    return {
        f"{folder}/id_rsa": File(private, mode),
        f"{folder}/id_rsa.pub": File(public, mode),
        f"{folder}/authorized_keys": File(public, mode),
    }
