# SPDX-License-Identifier: Apache-2.0
"""Words of processes that connect to a rank or a server and are not of its job."""

from ringtune.meeting.rendezvous.channel import encode_frame

GARBAGE = (b"", b"\x00\x00\x00\x02{}", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9, encode_frame({"type": "hello"}))
