# SPDX-License-Identifier: Apache-2.0
"""Results on their way from the tasks to the driver: by Spark's serializer, in parts that fit into a row."""

from collections.abc import Sequence
from typing import Any

from pyspark.serializers import CPickleSerializer

from ringtune.errors import ConfigError

PART_BYTES = 16 * 2**20  # size of a part: well below the 2 GiB that a value of Spark's may have


def parts_of(result: Any) -> list[bytes]:
    """Return a result in parts.

    Raises:
        ConfigError: If Spark's serializer does not take it.
    """
    try:
        data = CPickleSerializer().dumps(result)
    except Exception as error:
        raise ConfigError(
            f"the result, a {type(result).__module__}.{type(result).__qualname__}, cannot be sent to the driver "
            f"({error}); return data that can be serialized"
        ) from error
    return [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]


def joined(parts: Sequence[bytes]) -> Any:
    """Return the result of parts in their order."""
    return CPickleSerializer().loads(b"".join(parts))
