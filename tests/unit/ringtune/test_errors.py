# SPDX-License-Identifier: Apache-2.0
"""The error tree is what Horovod's users and the binding rely on."""

import pytest

from ringtune import errors


def test_engine_errors_are_horovods() -> None:
    """Code that catches HorovodInternalError catches every error of a collective."""
    engine_errors = (errors.MismatchError, errors.PeerLostError, errors.CollectiveTimeout)

    assert all(issubclass(error, errors.HorovodInternalError) for error in engine_errors)
    assert not issubclass(errors.ConfigError, errors.HorovodInternalError)


@pytest.mark.parametrize("name", ["ConfigError", "MismatchError", "PeerLostError", "CollectiveTimeout"])
def test_an_error_survives_its_journey_by_name(name: str) -> None:
    """An error that another rank described becomes the same class with the same text."""
    error = errors.error_from_name(name, "rank 3 is gone")

    assert name == type(error).__name__
    assert "rank 3 is gone" == str(error)


def test_an_unknown_name_is_the_root_class() -> None:
    """A class that this version does not know still becomes an error of ours."""
    error = errors.error_from_name("SystemExit", "text")

    assert errors.RingtuneError is type(error)
