# SPDX-License-Identifier: Apache-2.0
"""Every designer in the registry, and every wrapper of one, passes the conformance suite for third parties."""

import pytest

from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Designer,
    SearchSpace,
    default_config,
    designer_names,
    make_designer,
    search_space,
)
from ringtune.tuner.designers import DesignerWrapper, JointDesigner, WarmStartedDesigner
from ringtune.tuner.designers.optuna import MODULES
from ringtune.tuner.space.parameters import MIB
from ringtune.tuner.testing import DesignerConformance, WrapperConformance
from ringtune.tuning.job.failing_configs import FailureAwareDesigner
from ringtune.tuning.service_link.first_config import FirstConfigDesigner

OPTUNA_SAMPLERS = [
    pytest.param(f"optuna:{sampler}", marks=pytest.mark.long if sampler == "gp" else ())  # some 25 s
    for sampler in MODULES
]


class TestRandomDesigner(DesignerConformance):
    """The control."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a random designer."""
        return make_designer("random", space, seed)


class TestGaussianProcessDesigner(DesignerConformance):
    """The tuner's own Gaussian process."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer on it."""
        return make_designer("gp", space, seed)


class TestSkoptDesigner(DesignerConformance):
    """The Gaussian process on scikit-optimize."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a scikit-optimize designer."""
        return make_designer("skopt", space, seed)


class TestOptunaDesigner(DesignerConformance):
    """Optuna's samplers."""

    sampler = ""

    @pytest.fixture(autouse=True, params=OPTUNA_SAMPLERS)
    def _take_each(self, request: pytest.FixtureRequest) -> None:
        self.sampler = request.param

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer on the sampler."""
        return make_designer(self.sampler, space, seed)


class TestDesignerWrapper(WrapperConformance):
    """The base of all wrappers."""

    def wrap(self, designer: Designer) -> Designer:
        """Return a wrapper that changes nothing."""
        return DesignerWrapper(designer)


class TestFirstConfigDesigner(WrapperConformance):
    """The start that the service offers; the service's config comes first and is not the wrapped designer's."""

    def wrap(self, designer: Designer) -> Designer:
        """Return a wrapper whose start is the default, which is measured already."""
        return FirstConfigDesigner(designer, default_config())

    def test_respects_fixed_values(self) -> None:
        """The wrapper's maker must give a legal start; the rest is the wrapped designer's duty."""
        start = default_config().replace({"fusion_bytes": 2 * MIB})
        space = search_space({"fusion_bytes": 2 * MIB}, start)
        designer = FirstConfigDesigner(make_designer(DEFAULT_DESIGNER, space, 2), start.replace({"cycle_ms": 4.0}))

        trials = self.converse(designer, 4)[1:]

        assert {2 * MIB} == {trial.config["fusion_bytes"] for trial in trials}


class TestFailureAwareDesigner(WrapperConformance):
    """The designer of launches, some of which fail."""

    def wrap(self, designer: Designer) -> Designer:
        """Return a wrapper that knows of no failure."""
        return FailureAwareDesigner(designer)


def test_a_wrapper_has_every_member_of_every_protocol_of_a_designer() -> None:
    """A capability that is added to the protocols and not to the wrapper would be lost in a job with a service."""
    protocols = (Designer, JointDesigner, WarmStartedDesigner)
    members = {name for protocol in protocols for name in vars(protocol) if not name.startswith("_")}

    assert members == {name for name in vars(DesignerWrapper) if not name.startswith("_")}


def test_every_registered_designer_is_under_contract() -> None:
    """A new registry entry needs a class here."""
    under_contract = {"gp", "random", "skopt", *(f"optuna:{sampler}" for sampler in MODULES)}

    assert under_contract == set(designer_names())
