# SPDX-License-Identifier: Apache-2.0
"""This process's way into one world after the other, by the rendezvous server that its launcher has named."""

from ringtune.meeting.rendezvous.progress import Progress
from ringtune.session.basics import init, shutdown
from ringtune.session.session import SESSION


class WorldMembership:
    """Leaves a world and joins the next one."""

    @property
    def is_elastic(self) -> bool:
        """True if a rendezvous server makes a next meeting; known after the first one."""
        return SESSION.rendezvous is not None

    def has_update(self) -> bool:
        """Return whether the server has announced to this rank that workers come or leave."""
        return SESSION.rendezvous is not None and SESSION.rendezvous.has_update()

    def join(self) -> None:
        """Join the next world; returns at once while there is one. See `ringtune.session.basics.init`."""
        init()

    def leave(self) -> None:
        """Leave the world; returns at once where there is none."""
        shutdown()

    def hurry(self) -> None:
        """Wait for late ranks, at the next meeting, for no longer than they have kept this rank waiting already."""
        if SESSION.rendezvous is not None:
            SESSION.rendezvous.patience_s = SESSION.require().settings.timeout_s

    def note_progress(self, progress: Progress, failure: str = "") -> None:
        """Report the training's progress to the launcher, at the next meeting or at the end of this process.

        Args:
            progress: Place of the training.
            failure: Error that ends this process; empty if none does.
        """
        if SESSION.rendezvous is not None:
            SESSION.rendezvous.progress, SESSION.rendezvous.failure = progress, failure

    def set_unfinished(self, is_unfinished: bool) -> None:
        """Report to the launcher whether the end of this process, even a normal one, is the loss of a worker."""
        if SESSION.rendezvous is not None:
            SESSION.rendezvous.is_unfinished = is_unfinished
