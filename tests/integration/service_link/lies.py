# SPDX-License-Identifier: Apache-2.0
"""Replies that a broken or hostile service could send: whole ones bent in one place, at every level of the exchange."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from ringtune.tuner import SearchSpace
from tests.integration.service_link.servers import http_reply, recommendation_reply

NASTY: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**62,
    10**400,
    1e308,
    -0.0,
    1e-300,
    "",
    "auto",
    "\u0000",
    "\ud83d",
    "x" * 3000,
    "$(reboot)",
    [],
    [[[[[]]]]],
    {},
    {"special": 0},
    float("nan"),
    float("inf"),
)
TEXTS = (b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe", b"null", b"0x10", b"")
HEADS = (
    b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n{}",
    b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
    b"HTTP/1.1 429 Busy\r\nRetry-After: 1e99\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/0.9 hello\r\n\r\n",
    b"SSH-2.0-OpenSSH\r\n",
    b"\x00" * 100,
    b"",
)


def lie(rng: random.Random, space: SearchSpace) -> bytes:
    """Return a service's answer to the question for a start; about one in six is no lie."""
    reply = recommendation_reply(space.random(_numpy(rng)).to_json())
    bend: Callable[[random.Random, dict[str, Any]], bytes] = rng.choice((_bent, _bent, _bent, _flipped, _cut, _framed))
    return bend(rng, reply)


def _numpy(rng: random.Random) -> Any:
    return np.random.default_rng(rng.getrandbits(32))


def _bent(rng: random.Random, reply: dict[str, Any]) -> bytes:
    """Replace, remove or rename one value, anywhere in the reply."""
    bent = copy.deepcopy(reply)
    place = rng.choice([bent, bent["config"], bent["config"], bent["config"], bent["evidence"]])
    name = rng.choice(list(place))
    kind = rng.randrange(4)
    if kind == 0:
        del place[name]
    elif kind == 1:
        place[f"{name}x"] = place.pop(name)
    else:
        place[name] = _near(rng, place[name])
    return http_reply(json.dumps(bent).encode())


def _near(rng: random.Random, value: Any) -> Any:
    """Return another value: a nasty one, or the same a little or far off."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.5:
        return value * rng.choice((-1, 0.999, 1.001, 1e-6, 1e6, 1e300))
    return rng.choice(NASTY)


def _flipped(rng: random.Random, reply: dict[str, Any]) -> bytes:
    """Change some bytes, or put a text of JSON's edges in."""
    body = bytearray(json.dumps(reply).encode())
    for _ in range(rng.randrange(1, 4)):
        body[rng.randrange(len(body))] = rng.randrange(256)
    if rng.random() < 0.3:
        place = rng.randrange(len(body))
        body[place:place] = rng.choice(TEXTS)
    return http_reply(bytes(body))


def _cut(rng: random.Random, reply: dict[str, Any]) -> bytes:
    """End too early, or never stop."""
    whole = http_reply(json.dumps(reply).encode())
    if rng.random() < 0.1:
        return http_reply(b" " * (1 << 17) + b"{}")
    return whole[: rng.randrange(len(whole))]


def _framed(rng: random.Random, reply: dict[str, Any]) -> bytes:
    """Break HTTP itself, or tell the truth."""
    return rng.choice(HEADS) if rng.random() < 0.5 else http_reply(json.dumps(reply).encode())
