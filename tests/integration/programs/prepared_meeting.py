# SPDX-License-Identifier: Apache-2.0
"""Rank 0 of a meeting that a platform's own channel prepares; starts rank 1, as such a platform would.

Arguments: `unix` or `tcp`, the kind of address. A child has the argument `child`.
"""

import os
import subprocess
import sys

from ringtune.meeting.bootstrap.meeting_point import MeetingPoint, open_meeting_point
from ringtune.meeting.rendezvous.site import Site, own_site
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say


def meet() -> None:
    """Meet twice under the same variables, with the open socket and without."""
    for turn in range(2):
        world = join()
        (total,) = allreduce(world, "x", [1.0])
        say(f"turn {turn}: {world.rank} of {world.size} counted {total:.0f}")
        SESSION.shutdown()


def meet_with_child(point: MeetingPoint) -> None:
    """Meet with a child that has rank 1 of a meeting."""
    variables = {**os.environ, **point.variables(1)}
    with subprocess.Popen([sys.executable, __file__, "child"], env=variables) as child:
        os.environ.update(point.variables(0))
        meet()
    assert 0 == child.returncode, child.returncode


def main() -> None:
    """Prepare a meeting, and another one whose predecessor's socket was never used."""
    site = own_site()
    other = site if sys.argv[1] == "unix" else Site("another host", site.network, site.addresses)
    unused, _ = open_meeting_point([site, other])
    SESSION.hand_over(unused)
    listener, point = open_meeting_point([site, other])
    assert point.rendezvous.startswith(sys.argv[1]), point
    assert point.job_key not in repr(point)
    SESSION.hand_over(listener)
    assert -1 == unused.fileno()
    meet_with_child(point)
    assert -1 == listener.fileno()

    held, second = open_meeting_point([site, other])
    held.close()
    stale, _ = open_meeting_point([site, other])
    SESSION.hand_over(stale)
    meet_with_child(second)
    assert -1 == stale.fileno()


if sys.argv[1] == "child":
    meet()
else:
    main()
