# SPDX-License-Identifier: Apache-2.0
"""Pods as namespaces on this machine: a network, process ids, a host name, and a root file system of its own each.

The root is this machine's, below a layer that is thrown away, with the files that `deploy/kubernetes/image/Dockerfile`
copies, the user that it names, a /dev/shm of 64 MB as containers have, and the mounted files of the pod. A pod knows
names once the cluster has published them, in /etc/hosts.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source_tree import REPOSITORY
from tests.integration.hosts import MISSING as MISSING_FOR_HOSTS
from tests.integration.hosts import Host, hosts
from tests.integration.jobs import Finished
from tests.integration.remote_shells import MISSING_FOR_SSH
from tests.platforms.kubernetes.operators import File, Pod
from tests.platforms.kubernetes.specs import FOLDER

IMAGE = FOLDER / "image"
DEADLINE_S = 300.0
MISSING = MISSING_FOR_HOSTS or MISSING_FOR_SSH
needs_pods = pytest.mark.skipif(bool(MISSING), reason=MISSING)
BIN = Path(sys.executable).parent
_ENTER = """set -e
hostname {name}
ip route replace default dev eth0
mount --make-rprivate /
mount -t tmpfs -o size=1g,mode=755 tmpfs {folder}/layer
cd {folder}/layer
lay() {{ mkdir -p upper$2 work$2; mount -t overlay overlay -o lowerdir="$1",upperdir=upper$2,workdir=work$2 "$3"; }}
mkdir root
lay / "" root
for path in {shown}; do
  [ "$(stat -c %d "$path")" = "$(stat -c %d /)" ] || {{ mkdir -p root/"$path"; lay "$path" $((n += 1)) root/"$path"; }}
  while [ "$path" != / ]; do chmod a+rx root/"$path"; path=$(dirname "$path"); done
done
cd root
mount --rbind /dev dev
mount -t tmpfs -o size=64m,mode=1777 tmpfs dev/shm
mount -t proc proc proc
cp -a {folder}/files/. .
mount --bind {folder}/hosts etc/hosts
exec chroot . setpriv --reuid {user} --regid {user} --clear-groups --inh-caps +dac_read_search \\
  --ambient-caps +dac_read_search env -i {environment} sh -c 'cd {directory} && exec "$@"' sh {command}
"""  # the image's user has to read a checkout that may lie in a folder of root's: opened in the layer, not beneath it


@dataclass(frozen=True)
class Image:
    """An image as its Dockerfile describes its containers.

    Attributes:
        copies: Sources, beside the Dockerfile, and where they go.
        directory: The working directory.
        user: Number of the user.
    """

    copies: Sequence[tuple[str, str]]
    directory: str
    user: int

    @classmethod
    def read(cls, path: Path) -> "Image":
        """Return the image of a Dockerfile; steps that install packages are this machine's."""
        text = path.read_text(encoding="utf-8")
        copies = re.findall(r"^COPY (\S+) (\S+)$", text, re.MULTILINE)
        (directory,) = re.findall(r"^WORKDIR (\S+)$", text, re.MULTILINE)
        (user,) = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
        return cls(copies, directory, int(user))


class Cluster:
    """Pods that are not started yet, each with a host; `cluster` makes it."""

    def __init__(self, folder: Path, places: Mapping[Pod, Host], programs: Mapping[str, str]) -> None:
        self._folder = folder
        self._places = places
        self._processes: dict[Pod, subprocess.Popen[bytes]] = {}
        self._starts_s: dict[Pod, float] = {}
        self._published: list[Pod] = []
        self._image = Image.read(IMAGE / "Dockerfile")
        for pod in places:
            self._prepare(pod, programs)

    def start(self, pod: Pod) -> None:
        """Start a pod's container."""
        folder, place = self._folder_of(pod), self._places[pod]
        enter = ["unshare", "--mount", "--uts", "--", "bash", str(folder / "enter")]
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            self._processes[pod] = subprocess.Popen(
                place.command(*enter), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self._starts_s[pod] = time.monotonic()

    def publish(self, *pods: Pod) -> None:
        """Let every pod know the names of some, as the cluster's name service does once they run."""
        self._published += pods
        lines = "".join(f"{self._places[pod].address} {' '.join(pod.names)}\n" for pod in self._published if pod.names)
        for pod in self._places:
            own = f"127.0.0.1 localhost\n{self._places[pod].address} {pod.name}\n"
            (self._folder_of(pod) / "hosts").write_text(own + lines, encoding="utf-8")  # in place: it is mounted

    def wait(self, pod: Pod) -> Finished:
        """Wait for the end of a pod's container; the end of a server before it is a failure."""
        end_s = time.monotonic() + DEADLINE_S
        while self._processes[pod].poll() is None:
            ended = [
                self._end_of(other) for other, p in self._processes.items() if other.is_server and p.poll() is not None
            ]
            assert not ended, "a server has ended\n" + ended[0].text
            assert time.monotonic() < end_s, f"{pod.name} ran past its deadline\n{self._end_of(pod).text}"
            time.sleep(0.05)
        return self._end_of(pod)

    def wait_for(self, pod: Pod, words: str) -> None:
        """Wait until a pod has written some words to standard error."""
        end_s = time.monotonic() + DEADLINE_S
        while words not in (text := (self._folder_of(pod) / "stderr").read_text("utf-8", "replace")):
            assert self._processes[pod].poll() is None, text
            assert time.monotonic() < end_s, text
            time.sleep(0.05)

    def kill(self, pod: Pod) -> None:
        """Kill a pod's container, as a lost node or a lack of memory does."""
        subprocess.run(self._places[pod].command("kill", "-9", "-1"), check=False)  # all but the first of the namespace
        self._processes[pod].wait()

    def update(self, pod: Pod, path: str, file: File) -> None:
        """Replace a file that is mounted in a running pod, at once and whole, as a volume of a ConfigMap does."""
        shell = self._processes[pod].pid
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii")
        target = Path(f"/proc/{children.split()[0]}/root") / path.lstrip("/")
        fresh = target.with_name(".fresh")
        fresh.write_text(file.text, encoding="utf-8")
        fresh.chmod(file.mode)
        fresh.rename(target)

    def run(self) -> list[Finished]:
        """Start all pods, publish their names, and return the ends of those that end by themselves."""
        for pod in self._places:
            self.start(pod)
        self.publish(*self._places)
        return [self.wait(pod) for pod in self._places if not pod.is_server]

    def close(self) -> None:
        """End the running processes."""
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _end_of(self, pod: Pod) -> Finished:
        out, err = ((self._folder_of(pod) / name).read_text("utf-8", "replace") for name in ("stdout", "stderr"))
        return Finished(self._processes[pod].poll() or 0, out, err, time.monotonic() - self._starts_s[pod])

    def _folder_of(self, pod: Pod) -> Path:
        return self._folder / pod.name

    def _prepare(self, pod: Pod, programs: Mapping[str, str]) -> None:
        folder, image = self._folder_of(pod), self._image
        for part in (folder, folder / "layer", folder / "files"):
            part.mkdir()
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{self._places[pod].address} {pod.name}\n", "utf-8")
        home = folder / "files" / image.directory.lstrip("/")
        home.mkdir(parents=True)
        for name, text in programs.items():
            (home / name).write_text(text, encoding="utf-8")
        for source, target in image.copies:
            if "*" not in source:
                _copied(folder / "files", target).write_bytes((IMAGE / source).read_bytes())
        users = "root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n"
        users += f"ringtune:x:{image.user}:{image.user}::{image.directory}:/bin/sh\n"
        _copied(folder / "files", "/etc/passwd").write_text(users, encoding="utf-8")
        for path, file in pod.files.items():
            mounted = _copied(folder / "files", path)
            mounted.write_text(file.text, encoding="utf-8")
            os.chown(mounted, 0, image.user)
            mounted.chmod(file.mode)
        os.chown(home, image.user, image.user)
        (folder / "enter").write_text(self._entrance(pod), encoding="utf-8")

    def _entrance(self, pod: Pod) -> str:
        image = self._image
        environment = {
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "HOME": image.directory,
            "HOSTNAME": pod.name,
            "OMP_NUM_THREADS": "1",
            **pod.environment,
        }
        shown = sorted({str(REPOSITORY), sys.prefix, sys.base_prefix, str(Path(shutil.which("python3") or "").parent)})
        return _ENTER.format(
            name=pod.name,
            folder=shlex.quote(str(self._folder_of(pod))),
            shown=shlex.join(shown),
            user=image.user,
            environment=shlex.join(f"{name}={value}" for name, value in environment.items()),
            directory=shlex.quote(image.directory),
            command=shlex.join(pod.command),
        )


@contextmanager
def cluster(folder: Path, pods: Sequence[Pod], programs: Mapping[str, str]) -> Iterator[Cluster]:
    """Make the hosts of some pods; the end of the block ends whatever runs there.

    Args:
        folder: Folder for the pods' files.
        pods: The pods.
        programs: Scripts in the image's working directory: text by name.
    """
    with hosts(len(pods)) as made:
        running = Cluster(folder, dict(zip(pods, made, strict=True)), programs)
        try:
            yield running
        finally:
            running.close()


def _copied(root: Path, path: str) -> Path:
    """Return where a file of a container lies before it is copied into its root; its folder is made."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
