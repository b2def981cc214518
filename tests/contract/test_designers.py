# SPDX-License-Identifier: Apache-2.0
"""Every designer in the registry passes the conformance suite that ships for third parties."""

from ringtune.tuner import Designer, SearchSpace, default_config, designer_names, make_designer, search_space
from ringtune.tuner.testing import DesignerConformance


class TestGridDesigner(DesignerConformance):
    """A control."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a grid designer."""
        return make_designer("grid", space, seed)


class TestHorovodDesigner(DesignerConformance):
    """Horovod's scheme, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that follows it."""
        return make_designer("horovod", space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """Its fixed points differ; at the edge of its box it measures a config again, as Horovod does."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), 4)

        assert 5 == len({trial.config for trial in trials})


class TestRandomDesigner(DesignerConformance):
    """The control."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a random designer."""
        return make_designer("random", space, seed)


class TestBaguaDesigner(DesignerConformance):
    """Bagua's scheme, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that follows it."""
        return make_designer("bagua", space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """It has 44 configs, and several of them are one of ours."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), self.ROUNDS)

        assert 5 < len({trial.config for trial in trials})


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


class TestSkoptHedgeDesigner(DesignerConformance):
    """scikit-optimize's own optimizer, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that leaves everything to it."""
        return make_designer("skopt_hedge", space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """Its points differ; where a number has a special value, the number beside it makes no other config."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), self.ROUNDS)

        assert 5 < len({trial.config for trial in trials})


def test_every_registered_designer_is_under_contract() -> None:
    """A new registry entry needs a class here."""
    assert ("bagua", "gp", "grid", "horovod", "random", "skopt", "skopt_hedge") == designer_names()
