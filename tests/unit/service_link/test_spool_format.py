# SPDX-License-Identifier: Apache-2.0
"""Tests of the spool's frames: whatever happens to a file, frames that were not hit are read."""

import random
from collections.abc import Iterator

import pytest

from ringtune.tuning.service_link.spool_format import MAX_PAYLOAD_BYTES, frame, payloads

SHORT_FLIPS = 500
LONG_FLIPS = 10_000
RECORDS = [f'{{"study":{{"key":"k{number}"}},"result":{{"steps":{number}}}}}'.encode() for number in range(8)]
NEXT = b'{"result":"next"}'


def test_what_is_framed_is_read() -> None:
    """In its order, the empty payload included."""
    data = b"".join(frame(payload) for payload in [*RECORDS, b""])

    assert [*RECORDS, b""] == payloads(data)


@pytest.mark.parametrize("payload", [b"two\nlines", b"x" * (MAX_PAYLOAD_BYTES + 1)])
def test_what_could_not_be_read_again_is_not_framed(payload: bytes) -> None:
    """A newline would end the frame early."""
    with pytest.raises(ValueError, match="payload"):
        frame(payload)


def flipped(seed: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield files with one bit flipped, and the records that were not hit; without end."""
    rng = random.Random(seed)
    whole = [frame(payload) for payload in RECORDS]
    while True:
        hit = rng.randrange(len(whole))
        damaged = bytearray(whole[hit])
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        data = b"".join([*whole[:hit], bytes(damaged), *whole[hit + 1 :]])
        yield data, [payload for number, payload in enumerate(RECORDS) if number != hit]


def check_flips(count: int) -> None:
    """Read flipped files: all records that were not hit are found, and no others."""
    files = flipped(seed=1)
    for _ in range(count):
        data, not_hit = next(files)
        mended = data if data.endswith(b"\n") else data + b"\n"

        found = payloads(mended + frame(NEXT))

        assert [payload for payload in found if payload in not_hit] == not_hit
        assert set(found) <= {*RECORDS, NEXT}
        assert NEXT == found[-1]


def test_a_torn_frame_costs_no_other() -> None:
    """The frames before the torn one are read, and one that was appended on the next line."""
    whole = [frame(payload) for payload in RECORDS[:3]]
    for cut in range(1, len(whole[-1]) - 1):
        torn = b"".join(whole)[:-cut]

        kept = RECORDS[: 3 if cut == 1 else 2]  # without its newline alone a frame is whole
        assert kept == payloads(torn), cut
        assert [*kept, NEXT] == payloads(torn + b"\n" + frame(NEXT)), cut


def test_a_flipped_bit_costs_at_most_the_record_that_it_hit() -> None:
    """A flipped bit in a checksum, a length, a payload or a newline costs one record at most."""
    check_flips(SHORT_FLIPS)


@pytest.mark.long
def test_ten_thousand_flipped_bits() -> None:
    """The full count."""
    check_flips(LONG_FLIPS)
