# SPDX-License-Identifier: Apache-2.0
"""Proofs of the job key."""

from dataclasses import replace

import pytest

from ringtune.meeting.rendezvous.proof import Transcript, derived_key, is_nonce, new_nonce

KEY = b"k" * 32
TRANSCRIPT = Transcript(
    "meeting",
    generation=0,
    caller=2,
    callee=0,
    caller_nonce="a" * 64,
    callee_nonce="b" * 64,
    caller_tls="off",
    callee_tls="off",
    binding="",
)


def test_a_proof_convinces_who_holds_the_key() -> None:
    """Equal keys and transcripts agree."""
    assert TRANSCRIPT.is_proof(KEY, "caller", TRANSCRIPT.proof(KEY, "caller"))


@pytest.mark.parametrize(
    "other",
    [
        replace(TRANSCRIPT, purpose="data"),
        replace(TRANSCRIPT, caller=3),
        replace(TRANSCRIPT, callee=1),
        replace(TRANSCRIPT, generation=1),
        replace(TRANSCRIPT, caller_nonce="c" * 64),
        replace(TRANSCRIPT, callee_nonce="c" * 64),
        replace(TRANSCRIPT, caller_tls="by the job key"),
        replace(TRANSCRIPT, callee_tls="by the job key"),
        replace(TRANSCRIPT, binding="d" * 64),
    ],
)
def test_a_proof_is_worth_nothing_elsewhere(other: Transcript) -> None:
    """A proof of another purpose, rank, generation or connection does not convince."""
    assert not TRANSCRIPT.is_proof(KEY, "caller", other.proof(KEY, "caller"))


def test_a_proof_cannot_be_reflected() -> None:
    """The callee's own proof, sent back, does not let the caller in."""
    assert not TRANSCRIPT.is_proof(KEY, "caller", TRANSCRIPT.proof(KEY, "callee"))


@pytest.mark.parametrize("claimed", [None, 1, "", "x" * 64, [], {"a": 1}, "\ud800"])
def test_nonsense_is_no_proof(claimed: object) -> None:
    """A JSON value of any kind in place of a proof is refused without an error."""
    assert not TRANSCRIPT.is_proof(KEY, "caller", claimed)


def test_nonces_are_fresh_and_have_their_form() -> None:
    """Two nonces differ; anything else than 64 hexadecimal digits is none."""
    assert new_nonce() != new_nonce()
    assert is_nonce(new_nonce())
    assert not is_nonce("zz")
    assert not is_nonce(None)


def test_a_derived_key_is_of_its_label_alone() -> None:
    """Other labels and other jobs have other keys; none is the job's own."""
    keys = {KEY, derived_key(KEY, "a"), derived_key(KEY, "b"), derived_key(b"x" * 32, "a")}

    assert 4 == len(keys)
    assert derived_key(KEY, "a") == derived_key(KEY, "a")
