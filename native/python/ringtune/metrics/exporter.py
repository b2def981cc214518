# SPDX-License-Identifier: Apache-2.0
"""Starts and ends the metrics server of a rank; any failure costs a warning and leaves training untouched."""

import hashlib
import hmac
import secrets
import socket
import time
from functools import partial

from prometheus_client import CollectorRegistry, generate_latest

from ringtune.system.listen_address import MAX_PORT, ListenAddress
from ringtune.version import __version__
from ringtune.world.world import World

from .engine_metrics import EngineCollector, JobCollector
from .families import Families
from .server import MetricsServer
from .tuner_facts import TunerFacts
from .tuner_metrics import TunerCollector

JOB_NAME_DIGITS = 12
"""Length of `training_job`: enough to tell a cluster's jobs apart."""


def start_exporter(world: World, facts: TunerFacts) -> MetricsServer | None:
    """Serve the metrics of a rank, where its settings ask for that.

    Returns:
        The server, which the caller closes; None where none was asked for, or where the port cannot be had, which
        is said once.
    """
    if world.settings.metrics_address is None:
        return None
    first = ListenAddress.parse(world.settings.metrics_address)
    address = first.of_local_rank(world.local_rank)
    try:
        server = _listen(address, world, facts)
    except OSError as error:
        world.console.warning(
            f"no metrics on {address}: {error.strerror or error}; training goes on without. This is local rank "
            f"{world.local_rank} of RINGTUNE_METRICS_PORT={first}: choose an address of this host, and ports from 1024 "
            f"on of which {world.local_size} in a row are free"
        )
        return None
    world.engine.laps.start()
    server.start()
    world.console.info(f"metrics at http://{address}/metrics")
    return server


def job_name(job_key: bytes) -> str:
    """Return the name by which all ranks of a job know it; the job's key cannot be derived from it."""
    if not job_key:
        return secrets.token_hex(JOB_NAME_DIGITS // 2)
    return hmac.new(job_key, b"ringtune metrics", hashlib.sha256).hexdigest()[:JOB_NAME_DIGITS]


def _listen(address: ListenAddress, world: World, facts: TunerFacts) -> MetricsServer:
    """Return a server that listens; raises OSError."""
    if address.port > MAX_PORT:
        raise OSError(f"ports end at {MAX_PORT}")
    return MetricsServer(address, partial(generate_latest, _registry(world, facts)), world.console.warning)


def _registry(world: World, facts: TunerFacts) -> CollectorRegistry:
    """Return the registry of this rank: the engine's metrics on every rank, the tuner's on rank 0."""
    settings = world.settings
    families = Families(
        {
            "training_job": job_name(world.job_key),
            "model": settings.autotune_model or "",
            "host": socket.gethostname(),
            "rank": str(world.rank),
            "local_rank": str(world.local_rank),
        }
    )
    tuner = "auto" if settings.is_unasked else "on" if settings.autotune else "off"
    job_facts = {"version": __version__, "transport": world.carrier, "autotune": tuner}
    registry = CollectorRegistry()
    registry.register(
        JobCollector(
            families,
            world_size=world.size,
            hosts=world.layout.host_count,
            began_unix_s=time.time(),
            facts=job_facts,
        )
    )
    registry.register(EngineCollector(families, world.engine))
    if settings.autotune and world.rank == 0:
        registry.register(TunerCollector(families, facts))
    return registry
