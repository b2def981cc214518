# SPDX-License-Identifier: Apache-2.0
"""Meetings that a platform's own channel prepares."""

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.meeting_point import MeetingPoint, open_meeting_point
from ringtune.meeting.rendezvous.site import Site


def test_each_meeting_has_a_key_and_an_address_of_its_own() -> None:
    """Neither key nor address of one meeting is good for the next."""
    site = Site("host", "network", ())
    pairs = [open_meeting_point([site, site]) for _ in range(2)]
    for listener, _ in pairs:
        listener.close()
    first, second = (point for _, point in pairs)

    assert first.job_key != second.job_key
    assert first.rendezvous != second.rendezvous


def test_variables_tell_each_rank_its_place_in_both_spellings() -> None:
    """Two ranks on the first host, one on the second."""
    variables = MeetingPoint("tcp://192.0.2.7:4321", (0, 0, 1), "ab" * 32).variables(2)

    assert {
        "RINGTUNE_RANK": "2",
        "RINGTUNE_WORLD_SIZE": "3",
        "RINGTUNE_RENDEZVOUS": "tcp://192.0.2.7:4321",
        "RINGTUNE_JOB_KEY": "ab" * 32,
        "HOROVOD_RANK": "2",
        "HOROVOD_SIZE": "3",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    } == variables


def test_hosts_without_a_common_network_are_refused() -> None:
    """The error names both hosts' networks."""
    sites = [Site("a", "1", ("10.1.0.1/24",)), Site("b", "2", ("10.2.0.1/24",))]

    with pytest.raises(ConfigError, match=r"10\.1\.0\.1/24.*10\.2\.0\.1/24"):
        open_meeting_point(sites)
