# SPDX-License-Identifier: Apache-2.0
"""Connects to an acceptor: proves that this rank holds the job key, and has the same proved to it.

Obstacles that may pass are waited for until the deadline: an acceptor that is not there yet, is crowded, or whose rank
is still in an earlier `init()`. Others, such as another job key, are an error at once.
"""

import errno
import time
from contextlib import suppress
from dataclasses import dataclass

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError

from .address import Address, connect
from .channel import Channel, ChannelError, Deadline, Interrupted, Message, NewsSource
from .conflicts import describe_failure
from .proof import (
    JOIN_PURPOSE,
    MEETING_PURPOSE,
    NO_RANK,
    PROTOCOL_VERSION,
    Membership,
    Transcript,
    is_nonce,
    new_nonce,
)
from .tls import BY_CERTIFICATES, MODES, TlsError

FIRST_RETRY_S = 0.002  # a socket has no event to wait for before it exists
LONGEST_RETRY_S = 0.05
_UNIX_WAY = "they share one network namespace (ranks in other containers need an address tcp://HOST:PORT)"
ANSWER_LIMIT_S = 10.0  # an acceptor that is silent for so long is called again


@dataclass(frozen=True)
class Destination:
    """Destination and purpose of a connection.

    Attributes:
        address: Address to connect to.
        callee: The rank that listens there, or `NO_RANK` for a launcher.
        purpose: Purpose of the connection.
    """

    address: Address
    callee: int
    purpose: str

    @property
    def whom(self) -> str:
        """The callee in words."""
        if self.purpose == JOIN_PURPOSE:
            return f"the rendezvous server at {self.address.host} port {self.address.port}"
        return "the launcher's address book" if self.callee == NO_RANK else f"rank {self.callee}"


class _Repeat(Exception):  # noqa: N818  (internal: says why the call must be repeated)
    """This rank was not let in, for a reason that may pass.

    Attributes:
        is_absent: Whether the address did not answer at all.
        is_refused: Whether the kernel reported that no process listens there.
    """

    def __init__(self, why: str, *, is_absent: bool = False, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_absent = is_absent
        self.is_refused = is_refused


@dataclass(frozen=True)
class _Patience:
    """Limits of the attempts to connect: a deadline, and news that end an attempt or keep from another one."""

    deadline: Deadline
    interrupt: NewsSource | None
    watch: NewsSource | None

    def check(self, to: Destination, membership: Membership, why: str) -> None:
        """Raise the error that ends the attempt, or return if the call is to be repeated."""
        if any(source is not None and source.has_news() for source in (self.interrupt, self.watch)):
            raise Interrupted
        if self.deadline.has_passed():
            way = _UNIX_WAY if to.address.scheme == "unix" else "no firewall stands between their hosts"
            raise CollectiveTimeout(
                f"{membership.who} could not meet {to.whom} within {self.deadline.limit_s:.0f} s ({why}); check that "
                f"all ranks were started and that {way}, or raise RINGTUNE_TIMEOUT_S"
            )


def open_channel(
    to: Destination,
    membership: Membership,
    join: Message,
    deadline: Deadline,
    interrupt: NewsSource | None = None,
    *,
    watch: NewsSource | None = None,
) -> Channel:
    """Return a connection that is proved on both sides.

    Args:
        to: Destination and purpose of the connection.
        membership: Membership of this process.
        join: Message with which this rank joins, without type and proof.
        deadline: End of the attempts.
        interrupt: A connection whose news end the attempt: losses of ranks are reported there.
        watch: A connection whose news prevent another attempt: the callee's own message takes precedence over them.

    Raises:
        ConfigError: If the callee holds another job key, is of another version or user, or has initialised more often.
        CollectiveTimeout: If it could not be met in time.
        PeerLostError: If it was there and is there no more, and there is no `interrupt`.
        Interrupted: If `interrupt` or `watch` has news.
    """
    patience = _Patience(deadline, interrupt, watch)
    has_met, pause_s, why = False, FIRST_RETRY_S, ""
    while True:
        try:
            return _attempt(to, membership, join, patience)
        except _Repeat as reason:
            if not (why and deadline.has_passed()):  # an attempt that was cut short knows less than one before
                why = str(reason)
            if has_met and interrupt is None and reason.is_refused:
                raise PeerLostError(f"{to.whom} ended during init: {to.address} refuses connections") from reason
            has_met = has_met or not reason.is_absent
        patience.check(to, membership, why)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_RETRY_S)


def _attempt(to: Destination, membership: Membership, join: Message, patience: _Patience) -> Channel:
    """Call once; raises `_Repeat` for a failure that may pass."""
    try:
        connection = connect(to.address, Deadline.after(min(patience.deadline.remaining_s(), ANSWER_LIMIT_S)))
    except OSError as error:
        if error.errno in {errno.EMFILE, errno.ENFILE}:
            raise
        is_refused = isinstance(error, ConnectionRefusedError)
        why = f"nobody listens on {to.address}: {error}"
        raise _Repeat(why, is_absent=True, is_refused=is_refused) from error
    channel = Channel(connection)
    try:
        _prove(channel, to, membership, join, patience)
    except BaseException:
        channel.close()
        raise
    return channel


def _prove(channel: Channel, to: Destination, membership: Membership, join: Message, patience: _Patience) -> None:
    if channel.is_strangers:
        raise ConfigError(f"{to.address} belongs to another user; choose another RINGTUNE_RENDEZVOUS")
    answer_by = Deadline.after(min(patience.deadline.remaining_s(), ANSWER_LIMIT_S))
    generation, nonce = membership.generation or 0, new_nonce()
    hello = {
        "type": "hello",
        "protocol": PROTOCOL_VERSION,
        "purpose": to.purpose,
        "generation": generation,
        "rank": membership.rank,
        "nonce": nonce,
        "tls": membership.tls.mode,
    }
    try:
        challenge = _challenged(channel, hello, membership, answer_by, patience.interrupt)
        transcript = _checked_transcript(to, membership, nonce, challenge, channel)
        proved = {"type": "join", "proof": transcript.proof(membership.job_key, "caller")}
        difference = _difference(to, membership, transcript)
        if difference is not None:
            failure = join.get("failure") or describe_failure(difference)
            _tell_failure(channel, to, {**proved, "failure": failure}, answer_by)
            raise difference
        channel.send({**join, **proved})
        accepted = channel.receive(answer_by, patience.interrupt)
    except ChannelError as error:
        if isinstance(error.__cause__, TlsError):
            raise ConfigError(_explain_tls(to, membership, error)) from error
        raise _Repeat(f"{to.whom} dropped the connection: {error}") from error
    except TimeoutError as error:
        raise _Repeat(f"{to.whom} does not answer") from error
    if accepted["type"] != "accepted":
        raise ConfigError(f"{to.whom} answered {accepted['type']!r}; install one version of ringtune for all ranks")


def _challenged(
    channel: Channel, hello: Message, membership: Membership, answer_by: Deadline, interrupt: NewsSource | None
) -> Message:
    """Return the answer to a hello, inside TLS where both ends have it."""
    channel.send(hello)
    answer = channel.receive(answer_by, interrupt)
    if answer["type"] != "secure" or not membership.tls.is_on or channel.is_local:
        return answer
    channel.start_tls(membership.keyring, is_server=False)
    channel.agree_on_tls(answer_by, interrupt)
    channel.send(hello)
    return channel.receive(answer_by, interrupt)


def _checked_transcript(
    to: Destination, membership: Membership, nonce: str, challenge: Message, channel: Channel
) -> Transcript:
    if challenge["type"] == "elsewhere":
        _explain_elsewhere(to, membership, challenge)
    tls = challenge.get("tls")
    is_secured = channel.is_local or not membership.tls.is_on or channel.tls is not None or tls != membership.tls.mode
    if not is_nonce(challenge.get("nonce")) or tls not in MODES or not is_secured:
        raise ConfigError(
            f"{to.whom} answered with a malformed challenge; install one version of ringtune for all ranks"
        )
    transcript = Transcript(
        to.purpose,
        membership.generation or 0,
        membership.rank,
        to.callee,
        nonce,
        challenge["nonce"],
        membership.tls.mode,
        str(tls),
        channel.binding,
    )
    if not transcript.is_proof(membership.job_key, "callee", challenge.get("proof")):
        raise ConfigError(
            f"{membership.who} and the process that listens on {to.address} hold different job keys, or that "
            f"process is not {to.whom}; give all ranks one RINGTUNE_JOB_KEY and the same RINGTUNE_RENDEZVOUS"
        )
    return transcript


def _difference(to: Destination, membership: Membership, transcript: Transcript) -> ConfigError | None:
    """Return the error of two ends that differ in TLS; None where they do not."""
    if transcript.is_one_tls:
        return None
    return ConfigError(
        f"{membership.who} has TLS {transcript.caller_tls} but {to.whom} has TLS {transcript.callee_tls}; set "
        "RINGTUNE_TLS, RINGTUNE_TLS_CERT, RINGTUNE_TLS_KEY and RINGTUNE_TLS_CA alike for all ranks and their launcher"
    )


def _tell_failure(channel: Channel, to: Destination, join: Message, answer_by: Deadline) -> None:
    """Tell rank 0, which ends the job, why this rank cannot join; without its answer the error is this rank's alone."""
    if to.purpose != MEETING_PURPOSE:
        return
    with suppress(ChannelError, TimeoutError):
        channel.send(join)
        channel.receive(answer_by)


def _explain_tls(to: Destination, membership: Membership, error: ChannelError) -> str:
    advice = "are their job keys different? Give all ranks one RINGTUNE_JOB_KEY"
    if membership.tls.mode == BY_CERTIFICATES:
        advice = "see the files of RINGTUNE_TLS_CERT, RINGTUNE_TLS_KEY and RINGTUNE_TLS_CA on both hosts"
    mode = membership.tls.mode
    return f"{membership.who} and {to.whom} at {to.address} do not agree on TLS {mode}: {error}; {advice}"


def _explain_elsewhere(to: Destination, membership: Membership, answer: Message) -> None:
    """Distinguish the failure that may pass, a rank that is still to come to this `init()`, from those that cannot."""
    if answer.get("protocol") != PROTOCOL_VERSION:
        raise ConfigError(
            f"{to.whom} speaks version {answer.get('protocol')!r} of the rendezvous and {membership.who} "
            f"version {PROTOCOL_VERSION}; install one version of ringtune for all ranks"
        )
    theirs, ours = answer.get("generation"), membership.generation or 0
    counts = f"{to.whom} calls init() for the {theirs!r}th time after the first, {membership.who} for the {ours}th"
    if isinstance(theirs, int) and theirs > ours:
        raise ConfigError(f"{counts}; all ranks must call init() equally often")
    raise _Repeat(counts)
