# SPDX-License-Identifier: Apache-2.0
"""Proofs of the job key."""

from dataclasses import replace

import pytest

from ringtune.rendezvous.proof import Transcript, is_nonce, new_nonce

KEY = b"k" * 32
TRANSCRIPT = Transcript(rank=1, generation=0, member_nonce="a" * 64, coordinator_nonce="b" * 64)


def test_a_proof_convinces_who_holds_the_key() -> None:
    """Equal keys and transcripts agree."""
    assert TRANSCRIPT.is_proof(KEY, "member", TRANSCRIPT.proof(KEY, "member"))


@pytest.mark.parametrize(
    "other",
    [
        replace(TRANSCRIPT, rank=2),
        replace(TRANSCRIPT, generation=1),
        replace(TRANSCRIPT, member_nonce="c" * 64),
        replace(TRANSCRIPT, coordinator_nonce="c" * 64),
    ],
)
def test_a_proof_is_worth_nothing_elsewhere(other: Transcript) -> None:
    """A proof of another rank, generation or connection does not convince."""
    assert not TRANSCRIPT.is_proof(KEY, "member", other.proof(KEY, "member"))


def test_a_proof_cannot_be_reflected() -> None:
    """The coordinator's own proof, sent back, does not make a member."""
    assert not TRANSCRIPT.is_proof(KEY, "member", TRANSCRIPT.proof(KEY, "coordinator"))


@pytest.mark.parametrize("claimed", [None, 1, "", "x" * 64, [], {"a": 1}, "\ud800"])
def test_nonsense_is_no_proof(claimed: object) -> None:
    """Whatever JSON can carry in place of a proof is refused without an error."""
    assert not TRANSCRIPT.is_proof(KEY, "member", claimed)


def test_nonces_are_fresh_and_have_their_form() -> None:
    """Two nonces differ; anything else than 64 hexadecimal digits is none."""
    assert new_nonce() != new_nonce()
    assert is_nonce(new_nonce())
    assert not is_nonce("zz")
    assert not is_nonce(None)
