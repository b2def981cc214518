# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON and its digest: equal things have equal texts."""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> str:
    """Return the value as JSON without spaces, keys sorted; ValueError where JSON has no such number."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, hex."""
    return hashlib.sha256(text.encode()).hexdigest()
