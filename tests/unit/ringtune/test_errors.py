# SPDX-License-Identifier: Apache-2.0
"""The error tree, on which Horovod's users and the binding rely."""

import pytest

from ringtune import errors


def test_engine_errors_are_horovods() -> None:
    """Code that catches HorovodInternalError catches every error of a collective."""
    engine_errors = (errors.MismatchError, errors.PeerLostError, errors.DeviceError, errors.CollectiveTimeout)

    assert all(issubclass(error, errors.HorovodInternalError) for error in engine_errors)
    assert not issubclass(errors.ConfigError, errors.HorovodInternalError)


def test_what_horovod_raises_as_value_error_can_be_caught_so() -> None:
    """Wrong use and differing ranks are also ValueErrors, a wrong type is also a TypeError; a lost peer is neither."""
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.MismatchError, ValueError)
    assert issubclass(errors.WrongTypeError, errors.ConfigError)
    assert issubclass(errors.WrongTypeError, TypeError)
    assert not issubclass(errors.ConfigError, TypeError)
    assert not issubclass(errors.PeerLostError, ValueError)
    assert not issubclass(errors.CollectiveTimeout, ValueError)


@pytest.mark.parametrize(
    "name", ["ConfigError", "WrongTypeError", "MismatchError", "PeerLostError", "DeviceError", "CollectiveTimeout"]
)
def test_an_error_survives_its_journey_by_name(name: str) -> None:
    """An error that another rank described becomes the same class with the same text."""
    error = errors.error_from_name(name, "rank 3 is gone")

    assert name == type(error).__name__
    assert "rank 3 is gone" == str(error)


def test_an_unknown_name_is_the_root_class() -> None:
    """A class that this version does not know still becomes an error of ours."""
    error = errors.error_from_name("SystemExit", "text")

    assert errors.RingtuneError is type(error)
