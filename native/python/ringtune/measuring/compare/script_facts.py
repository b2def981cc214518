# SPDX-License-Identifier: Apache-2.0
"""Facts of a script, as its run shows them: for whom it was written, and how its gradients are reduced."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from .messages import RecordWriter

FOR_DDP, FOR_HOOK, FOR_OPTIMIZER, FOR_GROUPS = "ddp", "ringtune_hook", "ringtune_optimizer", "process_groups"
SERVED_BACKENDS = ("gloo", "ringtune")
ASKED_FOR = "is to be run on ringtune's backend, by --torch-backend"


class NotComparable(SystemExit):
    """The script cannot be run both ways; the reason was reported."""


@dataclass
class ScriptFacts:
    """Facts of the script on this rank.

    Attributes:
        ddp_models: Models that it wrapped in DistributedDataParallel.
        hooks: Models for which it registered ringtune's communication hook.
        optimizers: Optimizers that it gave to ringtune's DistributedOptimizer.
        gradients: Parameters whose gradients are reduced in a step; those of the optimizer that steps first, where the
            script reduces them itself.
        gradient_bytes: Their bytes.
        backend: Backend of torch's process group that DDP uses, or of the default one for the CPU; empty where there
            is none.
        own_groups: Clause on why the engine cannot take over DDP's reducer, but process groups; empty where it can.
        device: Type of the device that the gradients are on.
        torch: Version of PyTorch.
    """

    ddp_models: int = 0
    hooks: int = 0
    optimizers: int = 0
    gradients: int = 0
    gradient_bytes: int = 0
    backend: str = ""
    own_groups: str = ""
    device: str = ""
    torch: str = ""

    def note_parameters(self, parameters: Any) -> None:
        """Add parameters whose gradients are reduced."""
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self.gradients += len(trained)
        self.gradient_bytes += sum(parameter.numel() * parameter.element_size() for parameter in trained)
        self.device = trained[0].device.type if trained else self.device

    def written_for(self) -> str:
        """Return for whom the script was written."""
        if self.own_groups:
            return FOR_GROUPS
        if self.optimizers:
            return FOR_OPTIMIZER
        return FOR_HOOK if self.hooks else FOR_DDP

    def to_json(self) -> Mapping[str, Any]:
        """Return the facts for a record."""
        return {**asdict(self), "written_for": self.written_for()}


class Refusal:
    """Ends a script that cannot be compared, and reports the reason."""

    def __init__(self, reporter: RecordWriter) -> None:
        """Report through `reporter`."""
        self._reporter = reporter

    def refuse(self, reason: str) -> NoReturn:
        """Report a reason, a sentence with the remedy, and end the script.

        Raises:
            NotComparable: Always.
        """
        self._reporter.write("refusal", reason=reason)
        raise NotComparable(1)

    def check(self, facts: ScriptFacts) -> None:
        """Refuse a script whose gradients two reduce, or whose communication neither DDP nor Gloo carries."""
        if facts.ddp_models and facts.optimizers:
            self.refuse(
                "the script wraps a model in DistributedDataParallel and an optimizer in ringtune's "
                "DistributedOptimizer, which reduces gradients twice; keep one of the two"
            )
        if not facts.own_groups:
            return
        if facts.optimizers or facts.hooks:
            self.refuse(
                f"the script {facts.own_groups}, and calls ringtune itself; leave --torch-backend or ringtune's calls "
                "out"
            )
        if facts.backend not in SERVED_BACKENDS:
            self.refuse(
                f"the script {facts.own_groups}; ringtune's backend can take the place of Gloo there, but there is no "
                'process group of torch\'s in which Gloo serves the CPU. Say init_process_group("gloo"), change an '
                "import of Horovod to `import ringtune.torch as hvd`, or use `ringtune compare --gradients FILE` for "
                "the gradients alone"
            )
