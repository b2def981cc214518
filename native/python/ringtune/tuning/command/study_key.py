# SPDX-License-Identifier: Apache-2.0
"""Keys of a tuned command: that of its log, and that of the study which machines share at the service."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.identity.fingerprints import hardware_fingerprint, machine_facts
from ringtune.identity.gpu_facts import find_gpus, installed_nccl

from .engines import Engine
from .scores import Score

SURFACE_VERSION = 1
"""Raised only when a change of the engines' knobs makes old measurements worthless."""
LAYOUT = (1,)
"""Layout of a shared study: hosts and ranks are the launched command's own matter."""


def study_key(target: str, command: Sequence[str], engine: Engine, score: Score) -> dict[str, Any]:
    """Return the key of a run in the log: machine, command, engine and score."""
    machine = machine_facts(find_gpus(), installed_nccl()) if engine.is_for_gpus else machine_facts()
    question = json.dumps([*command, engine.identity] if engine.identity else [*command]).encode()
    return {
        "hardware": hardware_fingerprint([machine], None),
        "model": hashlib.sha256(question).hexdigest(),
        "layout": [],
        "target": target,
        "surface_version": SURFACE_VERSION,
        "score": score.description,
    }


def shared_key(key: Mapping[str, Any]) -> dict[str, Any]:
    """Return the service's key for a key of the log; a command with another score is another model there."""
    model = hashlib.sha256(json.dumps([key["model"], key["score"]]).encode()).hexdigest()
    same = {name: key[name] for name in ("hardware", "target", "surface_version")}
    return {**same, "model": model, "layout": list(LAYOUT)}
