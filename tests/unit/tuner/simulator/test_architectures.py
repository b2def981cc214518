# SPDX-License-Identifier: Apache-2.0
"""Tests of the models' gradients: they are those of the frameworks' own models, tensor by tensor."""

import hashlib
import json

import pytest

from ringtune.tuner.simulator import MODELS

LISTED = [
    # model, tensors, elements, begin of the SHA-256 over the names and shapes that the frameworks' models list
    ("bert_base", 199, 109_482_240, "84c328fb0940e48b"),
    ("manysmall", 289, 13_699_072, "f2fb127c99b23068"),
    ("mobilenet_v2", 158, 3_504_872, "3b76cff864d24eca"),
    ("resnet50", 161, 25_557_032, "02f4a51e36cef1ed"),
]


def test_every_model_is_listed() -> None:
    """None is believed without a list."""
    assert sorted(MODELS) == [name for name, *_ in LISTED]


@pytest.mark.parametrize(("model", "tensors", "elements", "digest"), LISTED)
def test_a_model_has_the_gradients_of_its_list(model: str, tensors: int, elements: int, digest: str) -> None:
    """Count, elements, and every name and shape in their order."""
    gradients = MODELS[model]()

    text = json.dumps([[gradient.name, list(gradient.shape)] for gradient in gradients], separators=(",", ":"))
    assert (tensors, elements) == (len(gradients), sum(gradient.elements for gradient in gradients))
    assert hashlib.sha256(text.encode()).hexdigest().startswith(digest)


@pytest.mark.parametrize(
    ("model", "billions", "within"), [("resnet50", 4.1, 0.05), ("mobilenet_v2", 0.3, 0.1), ("bert_base", 10.9, 0.05)]
)
def test_work_is_the_published_number_of_multiplications(model: str, billions: float, within: float) -> None:
    """ResNet-50 takes 4.1, MobileNetV2 0.3 billion of an image; BERT 85 million weights times 128 tokens."""
    work = sum(gradient.work or 0.0 for gradient in MODELS[model]())

    assert abs(work / 1e9 - billions) < within * billions
