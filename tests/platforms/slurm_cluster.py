# SPDX-License-Identifier: Apache-2.0
"""A real Slurm: a controller and two nodes with munge, each with network, processes, mounts and host name of its own.

All of it is one process tree in namespaces without names. The kernel ends the tree with the process that has started
it, whatever becomes of that, and no part of it is seen outside: no mount, interface, port or process id.

The nodes' /etc/hosts is like Debian's: a host's own name stands at 127.0.1.1, those of the others at their addresses.
"""

import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.jobs import Finished, clean_environment
from tests.waiting import wait_until

NODES = ("n1", "n2")
CONTROLLER = "ctl"
CPUS_PER_NODE = 4
LIMIT_S = 180.0
UNSHARE = ("unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "munged", "ip", "unshare", "nsenter", "setpriv")
ADDRESSES = {CONTROLLER: "10.77.0.100", "n1": "10.77.0.1", "n2": "10.77.0.2"}
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={controller}({controller_address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=2
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""
MUNGE = """\
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/munge
munged --key-file={folder}/munge.key --pid-file=/run/munge/pid --seed-file=/run/munge/seed --log-file=/run/munge/log
"""
NODE = """\
set -eu
hostname {name}
mount --bind {folder}/hosts-{name} /etc/hosts
. {folder}/munge.sh
ip link set lo up
until ip link show eth0 > /dev/null 2>&1; do sleep 0.01; done
ip address add {address}/24 dev eth0
ip link set eth0 up
slurmd -D -N {name} -f {folder}/slurm.conf &
wait
"""
CLUSTER = """\
set -eu
hostname {controller}
mount --bind {folder}/hosts-{controller} /etc/hosts
ip link add switch type bridge
ip address add {controller_address}/24 dev switch
ip link set lo up
ip link set switch up
. {folder}/munge.sh
for node in {nodes}; do
  {unshare} bash {folder}/$node.sh > {folder}/$node.out 2>&1 &
  until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
  ip link add port-$node type veth peer name eth0 netns $!
  ip link set port-$node master switch up
done
slurmctld -D -f {folder}/slurm.conf > {folder}/controller.out 2>&1 &
wait
"""


def _missing() -> str:
    """Return why there can be no cluster here; empty if there can be one."""
    if os.geteuid() != 0:
        return "namespaces need root"
    programs = [name for name in PROGRAMS if shutil.which(name) is None]
    if programs:
        return f"{', '.join(programs)} not found; `make system-packages` installs Slurm, munge and iproute2"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip()


MISSING = _missing()
needs_slurm = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@dataclass(frozen=True)
class SlurmCluster:
    """The cluster, as a user of its controller sees it.

    Attributes:
        folder: Folder of its configuration and logs.
        init_pid: First process of its process-id namespace, as seen from outside.
    """

    folder: Path
    init_pid: int

    def command(self, *command: str, folder: Path | None = None) -> list[str]:
        """Return the command line that runs a command at the controller, in a folder."""
        inside = ["nsenter", f"--target={self.init_pid}", "--net", "--mount", "--pid", "--uts", "--"]
        words = shlex.join(command)
        return [*inside, "sh", "-c", f"cd {shlex.quote(str(folder or self.folder))} && exec {words}"]

    def run(
        self,
        *command: str,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        limit_s: float = LIMIT_S,
    ) -> Finished:
        """Run a command at the controller to its end, with this interpreter's programs first on the path."""
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        ours = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}
        start_s = time.monotonic()
        finished = subprocess.run(
            self.command(*command, folder=folder),
            env=clean_environment({**ours, **(environ or {})}, uuid.uuid4().hex),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        return Finished(finished.returncode, finished.stdout, finished.stderr, time.monotonic() - start_s)

    def wait_until_idle(self) -> None:
        """Wait until no job is queued or runs."""
        wait_until(lambda: not self.run("squeue", "--noheader").stdout.strip(), LIMIT_S)

    def explain(self) -> str:
        """Return the daemons' logs, for failure messages."""
        logs = sorted((*self.folder.glob("*.log"), *self.folder.glob("*.out")))
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in logs)


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Start a cluster, wait until its nodes are idle, and end it.

    Args:
        folder: An empty folder for its files.
    """
    _write_files(folder)
    with (
        (folder / "cluster.out").open("w") as output,
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *UNSHARE, "bash", str(folder / "cluster.sh")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            cluster = SlurmCluster(folder, _init_of(process))
            _wait_until_idle(cluster, process)
            yield cluster
        finally:
            process.kill()


def _write_files(folder: Path) -> None:
    (folder / "state").mkdir()
    for name in NODES:
        (folder / f"spool-{name}").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(64))
    key.chmod(0o400)
    places = {"folder": folder, "controller": CONTROLLER, "controller_address": ADDRESSES[CONTROLLER]}
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={name} NodeAddr={ADDRESSES[name]} Port=17001 CPUs={CPUS_PER_NODE}"
        for name in NODES
    )
    files = {
        "slurm.conf": CONFIGURATION.format(**places, nodes=nodes, names=",".join(NODES)),
        "munge.sh": MUNGE.format(**places),
        "cluster.sh": CLUSTER.format(**places, nodes=" ".join(NODES), unshare=" ".join(UNSHARE)),
    }
    for name, address in ADDRESSES.items():
        files[f"hosts-{name}"] = _hosts_file(name)
        if name in NODES:
            files[f"{name}.sh"] = NODE.format(**places, name=name, address=address)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _hosts_file(own: str) -> str:
    others = [f"{address} {name}" for name, address in ADDRESSES.items() if name != own]
    return "\n".join(("127.0.0.1 localhost", f"127.0.1.1 {own}", *others, ""))


def _init_of(process: subprocess.Popen[bytes]) -> int:
    """Return the first process of the cluster's process-id namespace, once it is there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: process.poll() is not None or children.read_text())
    return int(children.read_text().split()[0])


def _wait_until_idle(cluster: SlurmCluster, process: subprocess.Popen[bytes]) -> None:
    def are_idle() -> bool:
        assert process.poll() is None, cluster.explain()
        query = subprocess.run(
            cluster.command("sinfo", "--noheader", "--Node", "--format=%T"),
            env={**os.environ, "SLURM_CONF": str(cluster.folder / "slurm.conf")},
            capture_output=True,
            text=True,
            check=False,
        )
        return len(NODES) * ["idle"] == query.stdout.split()

    try:
        wait_until(are_idle)
    except AssertionError as error:
        raise AssertionError(cluster.explain()) from error
