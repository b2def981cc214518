# SPDX-License-Identifier: Apache-2.0
"""A place that a rendezvous server gives on arrival: `RINGTUNE_RENDEZVOUS=join://HOST:PORT` and the job key."""

from collections.abc import Mapping

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.client import RendezvousClient

from .explicit import JOB_DIGEST_NAME, JOB_KEY_NAME, job_digest, read_address, read_job_key
from .identity import Identity
from .tls_variables import read_tls

RENDEZVOUS_NAME = "RINGTUNE_RENDEZVOUS"
WORKER_ID_NAME = "RINGTUNE_WORKER_ID"
MAX_ID_CHARACTERS = 200
_PREFIX = "join://"


def is_joined(environ: Mapping[str, str]) -> bool:
    """Return whether an environment names a rendezvous server."""
    return environ.get(RENDEZVOUS_NAME, "").startswith(_PREFIX)


def find_client(environ: Mapping[str, str], current: RendezvousClient | None) -> RendezvousClient | None:
    """Return the client of the rendezvous server that an environment names; None where it names none.

    Args:
        environ: The environment.
        current: Client of earlier meetings; it is returned again for the same server and job.

    Raises:
        ConfigError: If a variable is missing or malformed.
    """
    if not is_joined(environ):
        return None
    server = read_address(environ)
    if JOB_KEY_NAME not in environ and JOB_DIGEST_NAME in environ:
        raise ConfigError(
            f"this process has inherited {RENDEZVOUS_NAME}={server} from a worker of the job, but not the job key, "
            f"which a worker's children do not get; to let it work alone, start it without {RENDEZVOUS_NAME}"
        )
    worker_id = environ.get(WORKER_ID_NAME, "")
    if len(worker_id) > MAX_ID_CHARACTERS or not worker_id.isprintable():
        raise ConfigError(
            f"{WORKER_ID_NAME}={worker_id[:MAX_ID_CHARACTERS]!r} is not allowed; allowed: up to {MAX_ID_CHARACTERS} "
            "printable characters"
        )
    job_key = read_job_key(environ.get(JOB_KEY_NAME, ""))
    if current is not None and current.is_for(server, job_key):
        return current
    return RendezvousClient(server, job_key, worker_id, read_tls(environ))


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the identity of a worker that its launcher has given a name; None for others, which may be several."""
    digest = job_digest(environ[JOB_KEY_NAME]) if environ.get(JOB_KEY_NAME) else environ.get(JOB_DIGEST_NAME)
    worker_id = environ.get(WORKER_ID_NAME)
    if not is_joined(environ) or not digest or not worker_id:
        return None
    text = "\n".join(("ringtune join", digest, environ[RENDEZVOUS_NAME], worker_id))
    names = (RENDEZVOUS_NAME, WORKER_ID_NAME)
    return Identity(text, f"the place of worker {worker_id}", (*names, JOB_KEY_NAME), names)
