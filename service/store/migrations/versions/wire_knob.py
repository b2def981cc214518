# SPDX-License-Identifier: Apache-2.0
"""The engine's knob for what travels between hosts, in rows that were stored before there was one."""

from ringtune.service.store.migrations.added_knobs import add_knobs

revision = "wire_knob"
down_revision = "skew_knob"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the knob to the texts that lack it."""
    add_knobs({"wire": {"kind": "category", "choices": ["exact", "bf16"], "default": "exact"}})


def downgrade() -> None:
    """Leave the rows: a program from before takes the knob as it finds it."""
