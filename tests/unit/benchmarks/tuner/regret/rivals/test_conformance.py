# SPDX-License-Identifier: Apache-2.0
"""Each rival's designer passes the conformance suite, and answers random histories with legal configs."""

from collections.abc import Callable, Mapping

import pytest

from benchmarks.tuner.measured.samplers.random_configs import RandomSampler
from benchmarks.tuner.regret.rivals.asked import AskedDesigner
from benchmarks.tuner.regret.rivals.bagua import BaguaDesigner
from benchmarks.tuner.regret.rivals.grid import GridDesigner
from benchmarks.tuner.regret.rivals.horovod import HorovodDesigner
from benchmarks.tuner.regret.rivals.skopt_hedge import SkoptHedgeDesigner
from ringtune.tuner import Designer, SearchSpace, default_config, search_space
from ringtune.tuner.testing import DesignerConformance
from tests.unit.tuner.designers.histories import check_histories, short_and_long

DESIGNERS: Mapping[str, Callable[[SearchSpace, int], Designer]] = {
    "bagua": BaguaDesigner,
    "grid": GridDesigner,
    "horovod": HorovodDesigner,
    "skopt_hedge": SkoptHedgeDesigner,
}
HISTORIES = {"bagua": (15, 3_000), "grid": (300, 60_000), "horovod": (100, 20_000), "skopt_hedge": (10, 1_000)}
"""Number of histories by rival: the short form, and the long one."""


class TestGridDesigner(DesignerConformance):
    """Grid search, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a grid designer."""
        return GridDesigner(space, seed)


class TestHorovodDesigner(DesignerConformance):
    """Horovod's scheme, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that follows it."""
        return HorovodDesigner(space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """The fixed points differ; Horovod's scheme measures a config again at the edge of its box."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), 4)

        assert 5 == len({trial.config for trial in trials})


class TestBaguaDesigner(DesignerConformance):
    """Bagua's scheme, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that follows it."""
        return BaguaDesigner(space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """The scheme has 44 configs, and several of them are one of ours."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), self.ROUNDS)

        assert 5 < len({trial.config for trial in trials})


class TestSkoptHedgeDesigner(DesignerConformance):
    """scikit-optimize's own optimizer, a rival."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that leaves everything to it."""
        return SkoptHedgeDesigner(space, seed)

    def test_does_not_repeat_itself(self) -> None:
        """The points differ; the number beside a special value makes no other config."""
        trials = self.converse(self.make_designer(search_space({}, default_config()), 4), self.ROUNDS)

        assert 5 < len({trial.config for trial in trials})


class TestAskedDesigner(DesignerConformance):
    """A sampler of another library, here one that draws at random."""

    def make_designer(self, space: SearchSpace, seed: int) -> Designer:
        """Return a designer that asks it."""
        return AskedDesigner(RandomSampler, space, seed)


@pytest.mark.parametrize(("name", "count"), short_and_long(HISTORIES))
def test_whatever_has_happened_the_next_config_is_legal(name: str, count: int) -> None:
    """The expectations of it, and of every measured config, are finite."""
    check_histories(name, DESIGNERS[name], count)
