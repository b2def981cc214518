# SPDX-License-Identifier: Apache-2.0
"""Plain data to JSON and back, exactly: types survive, floats to the last bit, and nothing is ever executed.

| Python | JSON |
|---|---|
| None, bool, int, str | itself |
| float | `{"float": hexadecimal}`; infinities and NaN too |
| list | array |
| tuple | `{"tuple": array}` |
| dict | `{"dict": [[key, value], ...]}`; keys are encoded like values |
| tensor | `{"tensor": number, "dtype": name, "shape": array}`; its values travel apart |
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ringtune.errors import ConfigError

from .buffers import ENGINE_DTYPES

MakeTensor = Callable[[int, torch.dtype, tuple[int, ...]], torch.Tensor]

MAX_DEPTH = 64

_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in ENGINE_DTYPES}


def encode(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return JSON for plain data, and the tensors in it in the order of their numbers.

    Raises:
        ConfigError: If the data holds anything that the table above does not.
    """
    tensors: list[torch.Tensor] = []
    return json.dumps(_to_json(value, tensors, MAX_DEPTH), separators=(",", ":")).encode(), tensors


def decode(text: bytes, make_tensor: MakeTensor) -> Any:
    """Return the data that `encode` was given.

    Args:
        text: From `encode`.
        make_tensor: Called with number, dtype and shape for each tensor, in the order of the numbers.

    Raises:
        ConfigError: If the text is not from `encode`.
    """
    try:
        return _from_json(json.loads(text), make_tensor)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"the encoded data cannot be read: {error!r}; use one version of ringtune") from error


def _to_json(value: Any, tensors: list[torch.Tensor], depth: int) -> Any:
    if depth == 0:
        raise ConfigError(f"data nested more than {MAX_DEPTH} deep cannot be sent to other ranks")

    def inner(items: Iterable[Any]) -> list[Any]:
        return [_to_json(item, tensors, depth - 1) for item in items]

    if value is None or type(value) in {bool, int, str}:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, torch.Tensor):
        return _tensor_to_json(value, tensors)
    if isinstance(value, (list, tuple)):
        return {"tuple": inner(value)} if isinstance(value, tuple) else inner(value)
    if isinstance(value, dict):
        return {"dict": [inner(pair) for pair in value.items()]}
    raise ConfigError(
        f"a {type(value).__module__}.{type(value).__qualname__} cannot be sent to other ranks; plain data can: None, "
        "bool, int, float, str, list, tuple, dict, and dense tensors in CPU memory"
    )


def _tensor_to_json(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> Any:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _DTYPES or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise ConfigError(
            f"a {tensor.layout} tensor of {tensor.dtype} on {tensor.device} cannot be sent to other ranks"
        )
    tensors.append(tensor)
    return {"tensor": len(tensors) - 1, "dtype": name, "shape": list(tensor.shape)}


def _from_json(value: Any, make_tensor: MakeTensor) -> Any:
    def inner(items: Iterable[Any]) -> list[Any]:
        return [_from_json(item, make_tensor) for item in items]

    if isinstance(value, list):
        return inner(value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "tuple" in value:
        return tuple(inner(value["tuple"]))
    if "dict" in value:
        return {key: item for key, item in map(inner, value["dict"])}  # noqa: C416  (dict() takes "ab" for a pair)
    shape = tuple(int(size) for size in value["shape"])
    return make_tensor(int(value["tensor"]), _DTYPES[value["dtype"]], shape)
