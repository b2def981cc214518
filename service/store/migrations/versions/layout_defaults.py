# SPDX-License-Identifier: Apache-2.0
"""Defaults by layout: a job on several hosts of several ranks has the hierarchical allreduce, without any setting.

Which speed-ups are over the default is kept in the summaries, which are derived anew.
"""

revision = "layout_defaults"
down_revision = "page_sessions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change no table: the service derives the summaries after a change of revision."""


def downgrade() -> None:
    """Change no table; the service that follows derives its own summaries."""
