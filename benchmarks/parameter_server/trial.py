# SPDX-License-Identifier: Apache-2.0
"""One trial of the comparison, and the part of a process in it, as JSON carries them to the hosts."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

SYNC, ASYNC, DDP, RINGTUNE, TENSORFLOW = "sync server", "async server", "ddp", "ringtune", "tensorflow async"
SERVER_WAYS = (SYNC, ASYNC, TENSORFLOW)
ONE_HOST = "one host"
WORKER, SERVER = "worker", "server"


@dataclass(frozen=True)
class Trial:
    """One training, measured for a given time.

    Attributes:
        way: Name of the way in which the workers' gradients meet.
        servers: Number of parameter servers that divide the parameters among them; 0 under an allreduce.
        workers: Number of workers.
        place: `one host`, or the rate of each host's link, such as `1gbit`.
        slowdown: Factor on the computing time of the last worker; 1 for none.
        learning_rate: Factor on each single gradient, in every way.
        compute_ms: Time that a worker waits in each step in place of further computing, milliseconds.
        seconds: Time for which is trained.
        width: Features of the model's hidden layers.
        batch_size: Images of a worker's step.
        seed: Seed of the parameters and of the order of the images; equal for all ways of a round.
    """

    way: str
    servers: int
    workers: int
    place: str
    slowdown: float = 1.0
    learning_rate: float = 0.02
    compute_ms: float = 20.0
    seconds: float = 1.5
    width: int = 480
    batch_size: int = 16
    seed: int = 0

    @property
    def is_asynchronous(self) -> bool:
        """True if a gradient is applied without waiting for those of other workers."""
        return self.way in (ASYNC, TENSORFLOW)

    def compute_s(self, worker: int) -> float:
        """Return the time that a worker waits in each step, seconds."""
        return self.compute_ms / 1e3 * (self.slowdown if worker == self.workers - 1 else 1.0)


@dataclass(frozen=True)
class Role:
    """One process of a trial.

    Attributes:
        trial: The trial.
        kind: `worker` or `server`.
        number: Place among its kind, from 0.
        folder: Folder that all processes of the trial see; outside of the measured network.
        interface: Network interface that the processes use.
        meeting: Address of worker 0, `HOST:PORT`.
    """

    trial: Trial
    kind: str
    number: int
    folder: Path
    interface: str
    meeting: str

    @property
    def name(self) -> str:
        """Name among the processes of the trial."""
        return f"{self.kind}{self.number}"

    @property
    def result(self) -> Path:
        """File for what the process has measured."""
        return self.folder / f"{self.name}.json"

    @property
    def errors(self) -> Path:
        """File for its standard error, where it has one of its own."""
        return self.folder / f"{self.name}.errors"

    def to_json(self) -> str:
        """Return one line of text that `from_json` reads."""
        return json.dumps({**asdict(self), "folder": str(self.folder)})

    @classmethod
    def from_json(cls, text: str) -> "Role":
        """Return the role that a line describes."""
        values = json.loads(text)
        values |= {"trial": Trial(**values["trial"]), "folder": Path(values["folder"])}
        return cls(**values)
