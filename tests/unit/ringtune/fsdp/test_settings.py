# SPDX-License-Identifier: Apache-2.0
"""Settings of FSDP2 as configs, and the space that is searched."""

import pytest

from ringtune.fsdp.settings import FsdpSettings, fsdp_space


@pytest.mark.parametrize("settings", [FsdpSettings(), FsdpSettings(3, 2, 4), FsdpSettings(0, 0, 1)])
def test_settings_survive_the_way_through_a_config(settings: FsdpSettings) -> None:
    """Zero, the model's own prefetching, is a word of its own."""
    assert settings == FsdpSettings.from_config(settings.to_config())
    assert settings == FsdpSettings(*settings.words())


def test_the_settings_of_the_user_are_the_baseline() -> None:
    """The defaults leave everything as it is."""
    space = fsdp_space(FsdpSettings(), reshardable=6, prefetchable=6, is_fixed=False)

    assert {"kept_modules": 0, "forward_prefetch": "as_set", "backward_prefetch": "as_set"} == dict(space.default())
    assert 3 == len(space.free)
    assert space.contains(FsdpSettings(6, 4, 4).to_config())
    assert not space.contains(FsdpSettings(7, 0, 0).to_config())


def test_modules_that_never_reshard_leave_nothing_to_keep() -> None:
    """The prefetch depths are searched alone."""
    space = fsdp_space(FsdpSettings(), reshardable=0, prefetchable=3, is_fixed=False)

    assert ["forward_prefetch", "backward_prefetch"] == [parameter.name for parameter in space.free]
    assert not space.contains(FsdpSettings(0, 4, 0).to_config())
