# SPDX-License-Identifier: Apache-2.0
"""A place given by our own variables, as `ringtune run` and people starting ranks by hand set them."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import ALLOWED, Address, bound_address, listen
from ringtune.meeting.rendezvous.address_book import ask_address, post_address
from ringtune.meeting.rendezvous.interfaces import route_address
from ringtune.meeting.rendezvous.place import Place
from ringtune.meeting.rendezvous.proof import MIN_KEY_BYTES

from .identity import Identity, rank_in_words
from .integers import MAX_WORLD_SIZE, read_integer
from .tls_variables import read_tls

NAMES = ("RINGTUNE_RANK", "RINGTUNE_WORLD_SIZE", "RINGTUNE_RENDEZVOUS")
JOB_KEY_NAME = "RINGTUNE_JOB_KEY"
JOB_DIGEST_NAME = "RINGTUNE_JOB_DIGEST"
"""Takes the key's place in the environment after `init()`: children can be told apart by it, and cannot join."""
_ADVICE = ", set together with RINGTUNE_RANK, RINGTUNE_WORLD_SIZE, RINGTUNE_RENDEZVOUS and RINGTUNE_JOB_KEY"


def find(environ: Mapping[str, str], generation: int, limit_s: float) -> Place | None:
    """Return the place that our variables give, or None where none of them is set; see `find_place`."""
    if not any(name in environ for name in NAMES):
        return None
    world_size = read_integer(environ, "RINGTUNE_WORLD_SIZE", low=1, high=MAX_WORLD_SIZE, advice=_ADVICE)
    rank = read_integer(environ, "RINGTUNE_RANK", low=0, high=world_size - 1, advice=_ADVICE)
    place = Place(rank, world_size, generation, "RINGTUNE_RANK")
    if world_size == 1:
        return place
    address = read_address(environ)
    if JOB_KEY_NAME not in environ and JOB_DIGEST_NAME in environ:
        raise ConfigError(
            f"this process has inherited the place of rank {rank} of {world_size}, but not its job key, which a rank's "
            f"children do not get; to let it work alone, start it without {', '.join(NAMES)}; for a job of its own, "
            "start it with `ringtune run -np N COMMAND`"
        )
    place = replace(place, job_key=read_job_key(environ.get(JOB_KEY_NAME, "")), address=address)
    if address.scheme == "book":
        return _looked_up(replace(place, tls=read_tls(environ)), address, limit_s)
    return replace(place, address=address_of_meeting(address, generation))


def address_of_meeting(address: Address, generation: int) -> Address:
    """Return where a meeting takes place, given the address of the variables.

    Args:
        address: `unix` or `tcp`. Each meeting has a unix socket of its own, so that an init after another one cannot
            run into the sockets of the one before.
        generation: Number of meetings before it.
    """
    return Address("unix", f"{address.host}.{generation}") if address.scheme == "unix" else address


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the identity of the place that our variables give; None where one is missing."""
    digest = job_digest(environ[JOB_KEY_NAME]) if environ.get(JOB_KEY_NAME) else environ.get(JOB_DIGEST_NAME)
    if not digest or not all(environ.get(name) for name in NAMES):
        return None
    rank, world_size = environ["RINGTUNE_RANK"], environ["RINGTUNE_WORLD_SIZE"]
    text = "\n".join(("ringtune", digest, environ["RINGTUNE_RENDEZVOUS"], rank))
    return Identity(text, rank_in_words(rank, world_size), (*NAMES, JOB_KEY_NAME), NAMES, is_alone=world_size == "1")


def job_digest(key: str) -> str:
    """Return a digest that identifies a job key without revealing it."""
    return sha256(f"ringtune job\n{key}".encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_job_key(text: str) -> bytes:
    """Return the job key that a hexadecimal text holds.

    Raises:
        ConfigError: If it is not hexadecimal, or too short to be a secret.
    """
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"RINGTUNE_JOB_KEY is not allowed; allowed: at least {2 * MIN_KEY_BYTES} hexadecimal digits, random, the "
            "same on all ranks (its value is not shown)"
        )
    return key


def read_address(environ: Mapping[str, str]) -> Address:
    """Return the address in `RINGTUNE_RENDEZVOUS`; ConfigError where it holds none."""
    text = environ.get("RINGTUNE_RENDEZVOUS", "")
    try:
        return Address.parse(text)
    except ValueError as error:
        raise ConfigError(
            f"RINGTUNE_RENDEZVOUS={text!r} is not allowed; allowed: {ALLOWED}, the same on all ranks"
        ) from error


def _looked_up(place: Place, book: Address, limit_s: float) -> Place:
    """Complete a place by the launcher's address book."""
    if place.rank != 0:
        return replace(place, address=ask_address(book, place.membership, limit_s))
    listener = listen(Address("tcp", route_address(book.host)))
    try:
        address = bound_address(listener)
        post_address(book, place.membership, address, limit_s)
    except BaseException:
        listener.close()
        raise
    return replace(place, address=address, listener=listener)
