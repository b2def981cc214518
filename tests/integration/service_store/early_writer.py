# SPDX-License-Identifier: Apache-2.0
"""A writer that answers before its commit: the control of tests that kill a service."""

from collections.abc import Sequence

from sqlalchemy import Connection

from ringtune.service.domain.writer import GroupWriter, Outcome, Ticket


class EarlyWriter(GroupWriter):
    """The control: it answers when the rows are inserted, before they are committed."""

    def _stored(self, connection: Connection, tickets: Sequence[Ticket]) -> list[Outcome]:
        outcomes = super()._stored(connection, tickets)
        self._answer(tickets, outcomes)
        return outcomes
