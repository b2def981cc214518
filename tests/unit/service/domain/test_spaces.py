# SPDX-License-Identifier: Apache-2.0
"""The box: search spaces and configs that the service takes."""

from typing import Any

import pytest

from ringtune.service.domain.spaces import legal_config, study_space
from ringtune.service.errors import OutsideSearchSpace
from ringtune.tuner import ENGINE_PARAMETERS, SearchSpace, engine_parameters
from tests.unit.service.domain.reported import DEFAULT

BOX = SearchSpace(ENGINE_PARAMETERS, {})


def engine_space(**changes: Any) -> dict[str, Any]:
    """Return the engine's space with fields of `cycle_ms` changed."""
    described = BOX.to_json()
    cycle = next(parameter for parameter in described["parameters"] if parameter["name"] == "cycle_ms")
    cycle.update(changes)
    return described


def test_the_engines_space_is_taken_with_any_algorithms() -> None:
    """The registry is the engine's: its names are not known here."""
    parameters = engine_parameters(("ring", "direct"))

    space = study_space("ringtune", SearchSpace(parameters, {"cycle_ms": 1.0}).to_json(), BOX)

    assert parameters == space.parameters
    assert {"cycle_ms": 1.0} == space.fixed
    assert study_space("ringtune", engine_space(low=0.5, high=5.0), BOX).parameters


@pytest.mark.parametrize(
    "described",
    [
        engine_space(low=0.01),
        engine_space(high=60.0),
        engine_space(special=["auto"]),
        engine_space(name="cycle_s"),
        engine_space(kind="boolean", default=True),
        engine_space(high=float("nan")),
        {**BOX.to_json(), "parameters": BOX.to_json()["parameters"][1:]},
        {**BOX.to_json(), "fixed": {"cycle_ms": 0.001}},
        {"parameters": [], "fixed": {}},
        {},
    ],
)
def test_spaces_beyond_the_box_are_refused(described: dict[str, Any]) -> None:
    """A range, a special value, a name or a kind that the engine does not have."""
    with pytest.raises(OutsideSearchSpace):
        study_space("ringtune", described, BOX)


@pytest.mark.parametrize(
    "parameter",
    [
        {"kind": "number", "name": "a b", "low": 0.0, "high": 1.0, "default": 0.5},
        {"kind": "number", "name": "a", "low": 0.0, "high": 1e300, "default": 0.5},
        {"kind": "category", "name": "a", "choices": ["x" * 65], "default": "x" * 65},
        {"kind": "category", "name": "a", "choices": ["x\0"], "default": "x\0"},
        {"kind": "category", "name": "a", "choices": [1], "default": 1},
        {"kind": "category", "name": "a", "choices": ["x", ""], "default": "x"},
        {"kind": "category", "name": "a", "choices": [str(n) for n in range(65)], "default": "0"},
        {"kind": "number", "name": "a", "low": 0, "high": 1, "default": 0, "special": list(range(2, 19))},
        {"kind": "number", "name": "a", "low": 0, "high": 1, "default": "x", "special": ["x"], "scale": "square"},
        {"kind": "number", "name": "a", "low": 0, "high": 1, "default": 0, "step": 0.5},
        {"kind": "number", "name": "a", "low": 0, "high": 1, "default": 0, "step": -1},
        {"kind": "number", "name": "a", "low": "a", "high": "b", "default": "x", "special": ["x"]},
        {"kind": "boolean", "name": 3, "default": True},
        {"kind": "boolean", "name": "Cache-On", "default": True},
        {"kind": "boolean", "name": "a", "default": 1},
    ],
)
def test_another_targets_space_is_bounded_in_size_alone(parameter: dict[str, Any]) -> None:
    """Other engines have other knobs; names and values must be such that they can be stored and shown."""
    threads = {"kind": "number", "name": "threads", "low": 1, "high": 64, "default": 4, "step": 1}
    assert study_space("openmpi", {"parameters": [threads], "fixed": {}}, BOX).parameters

    with pytest.raises(OutsideSearchSpace):
        study_space("openmpi", {"parameters": [parameter], "fixed": {}}, BOX)


def test_a_config_is_written_as_its_parameters_write_it() -> None:
    """Equal configs become equal texts; others are refused with the parameter's name."""
    config = legal_config(BOX, {**DEFAULT, "cycle_ms": 1, "fusion_bytes": 65536.0})

    assert (float, int) == (type(config["cycle_ms"]), type(config["fusion_bytes"]))
    for wrong in ({"cycle_ms": float("inf")}, {"cycle_ms": True}, {"more": 1}, {"response_cache": 1}):
        with pytest.raises(OutsideSearchSpace, match=next(iter(wrong))):
            legal_config(BOX, {**DEFAULT, **wrong})
