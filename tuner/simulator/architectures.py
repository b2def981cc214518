# SPDX-License-Identifier: Apache-2.0
"""Gradients of four models, computed from their architectures: names, shapes and work, in backward order.

Work counts the multiplications of one sample's backward pass by the weights, up to a factor common to all layers: a
layer's weights times the positions at which they are applied.

Sources: He et al. 2016 (ResNet-50, bottleneck v1.5), Devlin et al. 2019 (BERT-base), Sandler et al. 2018 (MobileNetV2,
table 2). `manysmall` is no published model: 24 narrow transformer layers, 289 tensors of 1 KiB to 4 MiB.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from .job import Gradient

Gradients = tuple[Gradient, ...]

BERT_TOKENS = 128
NORM_WORK = 2.0
"""Multiplications per element and tensor of a normalization: the scale and its gradient."""


def resnet50() -> Gradients:
    """Return the 161 gradients of ResNet-50 at 224 x 224, 1000 classes."""
    layers = [*_convolution("conv1", 64, 3, 7, 112), *_norm("bn1", 64, 112)]
    inputs, extent = 64, 112
    for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True), start=1):
        extent //= 2  # a pooling before the first stage, a stride in each later one
        for block in range(blocks):
            before = extent * 2 if block == 0 and stage > 1 else extent
            layers += _bottleneck(f"layer{stage}.{block}", inputs, width, (before, extent))
            inputs = 4 * width
    layers += _linear("fc", 1000, inputs, 1)
    return tuple(reversed(layers))


def _bottleneck(name: str, inputs: int, width: int, extents: tuple[int, int]) -> Iterator[Gradient]:
    before, after = extents
    outputs = 4 * width
    yield from _convolution(f"{name}.conv1", width, inputs, 1, before)
    yield from _norm(f"{name}.bn1", width, before)
    yield from _convolution(f"{name}.conv2", width, width, 3, after)
    yield from _norm(f"{name}.bn2", width, after)
    yield from _convolution(f"{name}.conv3", outputs, width, 1, after)
    yield from _norm(f"{name}.bn3", outputs, after)
    if inputs != outputs:
        yield from _convolution(f"{name}.downsample.0", outputs, inputs, 1, after)
        yield from _norm(f"{name}.downsample.1", outputs, after)


def bert_base() -> Gradients:
    """Return the 199 gradients of BERT-base with its pooler, sequences of 128 tokens."""
    hidden, tokens = 768, BERT_TOKENS
    layers = [
        Gradient("embeddings.word", (30522, hidden), float(hidden * tokens)),
        Gradient("embeddings.position", (512, hidden), float(hidden * tokens)),
        Gradient("embeddings.token_type", (2, hidden), float(hidden * tokens)),
        *_layer_norm("embeddings.ln", hidden, tokens),
    ]
    for number in range(12):
        name = f"layer.{number}"
        for part in ("query", "key", "value", "out"):
            layers += _linear(f"{name}.attn.{part}", hidden, hidden, tokens)
        layers += _layer_norm(f"{name}.attn.ln", hidden, tokens)
        layers += _linear(f"{name}.inter", 4 * hidden, hidden, tokens)
        layers += _linear(f"{name}.out", hidden, 4 * hidden, tokens)
        layers += _layer_norm(f"{name}.out.ln", hidden, tokens)
    layers += _linear("pooler", hidden, hidden, 1)
    return tuple(reversed(layers))


def mobilenet_v2() -> Gradients:
    """Return the 158 gradients of MobileNetV2 at 224 x 224, 1000 classes."""
    layers = [*_convolution("f.0.0", 32, 3, 3, 112), *_norm("f.0.1", 32, 112)]
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    inputs, extent, number = 32, 112, 1
    for expansion, outputs, repeats, stride in stages:
        for repeat in range(repeats):
            after = extent // stride if repeat == 0 else extent
            layers += _inverted_residual(f"f.{number}", (inputs, inputs * expansion, outputs), (extent, after))
            inputs, extent, number = outputs, after, number + 1
    layers += [*_convolution(f"f.{number}.0", 1280, inputs, 1, extent), *_norm(f"f.{number}.1", 1280, extent)]
    layers += _linear("classifier", 1000, 1280, 1)
    return tuple(reversed(layers))


def _inverted_residual(name: str, channels: tuple[int, int, int], extents: tuple[int, int]) -> Iterator[Gradient]:
    inputs, hidden, outputs = channels
    before, after = extents
    if hidden != inputs:
        yield from _convolution(f"{name}.expand.0", hidden, inputs, 1, before)
        yield from _norm(f"{name}.expand.1", hidden, before)
    yield from _convolution(f"{name}.dw.0", hidden, 1, 3, after)
    yield from _norm(f"{name}.dw.1", hidden, after)
    yield from _convolution(f"{name}.project.0", outputs, hidden, 1, after)
    yield from _norm(f"{name}.project.1", outputs, after)


def manysmall() -> Gradients:
    """Return 289 small gradients: 24 layers of width 256 and an embedding."""
    width, tokens = 256, BERT_TOKENS
    layers = [Gradient("emb", (4096, width), float(width * tokens))]
    for number in range(24):
        name = f"h.{number}"
        layers += _layer_norm(f"{name}.ln1", width, tokens, ("w", "b"))
        layers += _linear(f"{name}.qkv", 3 * width, width, tokens, ("w", "b"))
        layers += _linear(f"{name}.o", width, width, tokens, ("w", "b"))
        layers += _layer_norm(f"{name}.ln2", width, tokens, ("w", "b"))
        layers += _linear(f"{name}.fc", 2 * width, width, tokens, ("w", "b"))
        layers += _linear(f"{name}.pr", width, 2 * width, tokens, ("w", "b"))
    return tuple(reversed(layers))


def _convolution(name: str, outputs: int, inputs: int, kernel: int, extent: int) -> Iterator[Gradient]:
    """Yield the weights of a square convolution; `inputs` is per group, `extent` is the output's."""
    work = float(outputs * inputs * kernel**2 * extent**2)
    yield Gradient(f"{name}.weight", (outputs, inputs, kernel, kernel), work)


def _norm(name: str, channels: int, extent: int) -> Iterator[Gradient]:
    yield from _layer_norm(name, channels, extent**2)


def _layer_norm(
    name: str, channels: int, positions: int, parts: tuple[str, str] = ("weight", "bias")
) -> Iterator[Gradient]:
    work = NORM_WORK * channels * positions
    yield from (Gradient(f"{name}.{part}", (channels,), work) for part in parts)


def _linear(
    name: str, outputs: int, inputs: int, positions: int, parts: tuple[str, str] = ("weight", "bias")
) -> Iterator[Gradient]:
    weight, bias = parts
    yield Gradient(f"{name}.{weight}", (outputs, inputs), float(outputs * inputs * positions))
    yield Gradient(f"{name}.{bias}", (outputs,), float(outputs * positions))


MODELS: Mapping[str, Callable[[], Gradients]] = MappingProxyType(
    {"bert_base": bert_base, "manysmall": manysmall, "mobilenet_v2": mobilenet_v2, "resnet50": resnet50}
)
