# SPDX-License-Identifier: Apache-2.0
"""Every designer in the registry, and every wrapper of one, passes the conformance suite for third parties."""

import math
from collections.abc import Sequence

import pytest

from ringtune.service_link.first_config import FirstConfigDesigner
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Designer,
    Phase,
    Sample,
    SearchSpace,
    StepTimes,
    Trial,
    VoidReason,
    default_config,
    designer_names,
    make_designer,
    search_space,
)
from ringtune.tuner.designers import DesignerWrapper, JointDesigner, WarmStartedDesigner
from ringtune.tuner.space.parameters import MIB
from ringtune.tuner.testing import DesignerConformance, WrapperConformance, measured_trial
from ringtune.tuning.failing_configs import FailureAwareDesigner


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

    def test_ignores_inconclusive_trials(self) -> None:
        """The wrapper does the opposite on purpose: it reports a failed config as a slow one."""
        received: list[Trial] = []

        class Listener(DesignerWrapper):
            def update(self, trials: Sequence[Trial]) -> None:
                received[:] = trials
                super().update(trials)

        reason = VoidReason.LAUNCH_FAILED
        void = Sample(1, default_config(), Phase.SEARCH, 1, math.nan, StepTimes.of(()), 0, reason)
        space = search_space({}, default_config())
        designer = FailureAwareDesigner(Listener(make_designer("random", space, 0)))

        designer.update([measured_trial(0, default_config(), [20.0, 30.0]), Trial(1, default_config(), (void,))])

        (told,) = received[1].samples
        assert pytest.approx(30.0) == told.step_times.median


def test_a_wrapper_has_every_member_of_every_protocol_of_a_designer() -> None:
    """A capability that is added to the protocols and not to the wrapper would be lost in a job with a service."""
    protocols = (Designer, JointDesigner, WarmStartedDesigner)
    members = {name for protocol in protocols for name in vars(protocol) if not name.startswith("_")}

    assert members == {name for name in vars(DesignerWrapper) if not name.startswith("_")}


def test_every_registered_designer_is_under_contract() -> None:
    """A new registry entry needs a class here."""
    assert ("gp", "random", "skopt") == designer_names()
