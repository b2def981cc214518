# SPDX-License-Identifier: Apache-2.0
"""The specs of `deploy/kubernetes`, run with their own commands in pods that are namespaces on this machine."""

import re
import secrets
from pathlib import Path

import pytest
import yaml

from tests.e2e.documented_commands import file_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import Finished
from tests.platforms.kubernetes import operators
from tests.platforms.kubernetes.pods import cluster, needs_pods
from tests.platforms.kubernetes.specs import FOLDER, document, documents

pytestmark = needs_pods

FIRST_JOB = REPOSITORY / "docs" / "howto" / "first_job.md"
PLACE = """
import socket, sys
place = f"rank {hvd.rank()} of {hvd.size()}, local {hvd.local_rank()} of {hvd.local_size()}, on {socket.gethostname()}"
hvd.barrier()
sys.stdout.write(f"{place}\\n")
"""
"""Program that ends with one write a rank, after rank 0's loss: `print` writes twice under torchrun, by `-u`."""
ASKS_FOR_NAME = """
import socket
try:
    socket.getaddrinfo("train-0.train", 7000)
except socket.gaierror:
    print("not known yet", file=sys.stderr, flush=True)
hvd.init()
"""
ELASTIC = """
import os, socket, sys
import torch
import ringtune.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, step=0, first=[], since=0)


@hvd.elastic.run
def train(state):
    while True:
        workers = sorted(hvd.allgather_object(f"{socket.gethostname()} {os.getpid()}"))
        if hvd.size() == 4 and not state.first:
            state.first, state.since = workers, state.step
        if hvd.size() == 4 and workers != state.first:
            return
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        state.step += 1
        state.commit()
        if state.first and state.step == state.since + 2:  # the ranks have committed the step before
            print("four workers train", file=sys.stderr, flush=True)


train(state)
print(f"{hvd.size()} workers after {state.step} steps, weights {model.weight.tolist()}")
"""
KATIB_FILTER = re.compile(r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?([Ee][+-]?\d+)?)", re.ASCII)
"""Default filter of Katib's metrics collector."""
PROGRAMS = {"train.py": file_of(FIRST_JOB, "train.py") + PLACE}


def places(ends: list[Finished]) -> list[str]:
    """Return where the ranks have run, once all pods have ended well."""
    for end in ends:
        assert 0 == end.code, end.text
    lines = [line.split("] ")[-1] for end in ends for line in end.stdout.splitlines()]
    assert 1 == sum("loss" in line for line in lines), lines
    return sorted(line for line in lines if line.startswith("rank "))


def expected(*hosts: tuple[str, int]) -> list[str]:
    """Return the lines of ranks on hosts with so many ranks each."""
    size = sum(count for _, count in hosts)
    lines: list[str] = []
    for host, count in hosts:
        lines += [f"rank {len(lines) + i} of {size}, local {i} of {count}, on {host}" for i in range(count)]
    return lines


def test_train_job_with_the_torch_policy(tmp_path: Path) -> None:
    """Torchrun's agents meet by the injected variables, and the ranks through their store."""
    pods = operators.torch_policy(document("trainjob-torch.yaml", "TrainJob"))

    with cluster(tmp_path, pods, PROGRAMS) as running:
        ends = running.run()

    assert expected(("train-node-0-0", 2), ("train-node-0-1", 2)) == places(ends)


def test_train_job_with_the_mpi_policy(tmp_path: Path) -> None:
    """The launcher finds itself in the operator's hostfile and starts the other node's ranks by ssh."""
    runtime, job = (document("trainjob-mpi.yaml", kind) for kind in ("TrainingRuntime", "TrainJob"))
    pods = operators.mpi_policy(runtime, job)

    with cluster(tmp_path, pods, PROGRAMS) as running:
        ends = running.run()

    assert expected(("train-ssh-node-0-0", 2), ("train-ssh-launcher-0-0", 2)) == places(ends)


@pytest.mark.long
def test_mpi_job_whose_launcher_is_first(tmp_path: Path) -> None:
    """Names are unknown, then no server listens: the launcher tries again, and keeps the full names of the hostfile."""
    pods = operators.mpi_job(document("mpijob.yaml", "MPIJob"))
    *workers, launcher = pods

    with cluster(tmp_path, pods, PROGRAMS) as running:
        running.start(launcher)
        running.wait_for(launcher, "there is no way to host 'train-worker-0.train.default.svc'")
        running.publish(*pods)
        running.wait_for(launcher, " port 2222: Connection ")  # said once, of whichever host was called first
        for worker in workers:
            running.start(worker)
        end = running.wait(launcher)

    assert expected(("train-worker-0", 2), ("train-worker-1", 2)) == places([end])


def test_a_pod_without_the_jobs_key_is_no_host(tmp_path: Path) -> None:
    """A server that shows another host key gets no command, and is named."""
    job = document("mpijob.yaml", "MPIJob")
    *_, launcher = operators.mpi_job(job)
    *workers, _ = operators.mpi_job(job)

    with cluster(tmp_path, [*workers, launcher], PROGRAMS) as running:
        (end,) = running.run()

    assert 2 == end.code, end.text
    assert 2 == end.stderr.count("Host key verification failed"), end.text


def test_indexed_job(tmp_path: Path) -> None:
    """A pod's index is its rank; rank 0 starts before the name service knows it, and the key comes from a Secret."""
    key = secrets.token_hex(32)
    pods = operators.jobs(documents("indexed-job.yaml"), {("ringtune-job", "key"): key})

    programs = {"train.py": PROGRAMS["train.py"].replace("\nhvd.init()", ASKS_FOR_NAME)}

    with cluster(tmp_path, pods, programs) as running:
        for pod in pods:
            running.start(pod)
        running.wait_for(pods[0], "not known yet")
        running.publish(*pods)
        ends = [running.wait(pod) for pod in pods]

    assert expected(*((f"train-{number}", 1) for number in range(4))) == places(ends)


def test_jobs_that_meet_at_a_rendezvous_server(tmp_path: Path) -> None:
    """Workers come before the server's name is known; each gets a rank, and the server's Job ends with theirs."""
    server, *workers = operators.jobs(documents("join-job.yaml"), {("ringtune-job", "key"): secrets.token_hex(32)})

    with cluster(tmp_path, [server, *workers], PROGRAMS) as running:
        for worker in workers:
            running.start(worker)
        running.start(server)
        running.publish(server)
        ends = [running.wait(pod) for pod in (server, *workers)]

    hosts = [line.rpartition(" ")[2] for line in places(ends)]
    assert {worker.name for worker in workers} == set(hosts)
    assert expected(*((host, 1) for host in hosts)) == places(ends)


def test_a_lost_pod_is_replaced_while_the_others_train(tmp_path: Path) -> None:
    """The other workers go on, the pod that Kubernetes makes anew joins them, and all end with the same weights."""
    values = {("ringtune-job", "key"): secrets.token_hex(32)}
    server, lost, *workers = operators.jobs(documents("elastic-job.yaml"), values)
    *_, fresh = operators.jobs(documents("elastic-job.yaml"), values)

    with cluster(tmp_path, [server, lost, *workers, fresh], {"train.py": ELASTIC}) as running:
        running.publish(server)
        for pod in (server, lost, *workers):
            running.start(pod)
        running.wait_for(lost, "four workers train")
        running.kill(lost)
        running.start(fresh)
        ends = [running.wait(pod) for pod in (server, *workers, fresh)]

    assert [0] * 5 == [end.code for end in ends], [end.text for end in ends]
    assert f"a worker was lost ('{lost.name}'" in ends[0].stderr, ends[0].text
    assert {1} == {len(end.stdout.splitlines()) for end in ends[1:]}
    (line,) = {end.stdout for end in ends[1:]}
    assert line.startswith("4 workers after ")


def test_an_elastic_mpi_job_takes_a_worker_back(tmp_path: Path) -> None:
    """A worker's pod is lost and made anew under its name; the operator's script tells of both."""
    job = document("mpijob-elastic.yaml", "MPIJob")
    first, second, launcher = pods = operators.mpi_job(job)

    with cluster(tmp_path, pods, {"train.py": ELASTIC}) as running:
        running.publish(*pods)
        for pod in pods:
            running.start(pod)
        running.wait_for(launcher, "it named no host")
        running.update(launcher, operators.DISCOVERY, operators.discovery(job, [first, second]))
        running.wait_for(launcher, "four workers train")
        running.kill(second)
        running.update(launcher, operators.DISCOVERY, operators.discovery(job, [first]))
        running.start(second)
        running.update(launcher, operators.DISCOVERY, operators.discovery(job, [first, second]))
        end = running.wait(launcher)

    assert 0 == end.code, end.text
    lines = {line.split("] ")[-1] for line in end.stdout.splitlines()}
    assert 1 == len(lines), end.text
    assert lines.pop().startswith("4 workers after ")


def test_learners_of_ffdl(tmp_path: Path) -> None:
    """The manifest's command makes a learner's rank, the meeting place and the key from FfDL's variables."""
    manifest = yaml.safe_load((FOLDER / "ffdl" / "manifest.yml").read_text(encoding="utf-8"))
    pods = operators.learners(manifest, secrets.token_hex(32))

    with cluster(tmp_path, pods, PROGRAMS) as running:
        ends = running.run()

    assert expected(("learner-a1b2c3-0", 1), ("learner-a1b2c3-1", 1)) == places(ends)


def test_a_trial_of_katib(tmp_path: Path) -> None:
    """A trial has its parameters in the environment, and prints its objective once, as Katib reads it."""
    spec = document("katib-experiment.yaml", "Experiment")["spec"]
    values = {"fusionBytes": "4194304", "cycleMs": "0.5"}
    template = yaml.safe_dump({**spec["trialTemplate"]["trialSpec"], "metadata": {"name": "knobs-x7k2p"}})
    for name, value in values.items():
        template = template.replace(f"${{trialParameters.{name}}}", f"'{value}'")
    pods = operators.jobs([yaml.safe_load(template)], {})
    programs = {"measured.py": file_of(FIRST_JOB.parent / "katib.md", "measured.py")}

    with cluster(tmp_path, pods, programs) as running:
        (end,) = running.run()

    assert 0 == end.code, end.text
    assert {"RINGTUNE_FUSION_BYTES": "4194304", "RINGTUNE_CYCLE_MS": "0.5"} == pods[0].environment
    assert ["step_ms"] == [match[1] for match in KATIB_FILTER.finditer(end.stdout)], end.text
    assert "step_ms" == spec["objective"]["objectiveMetricName"]
