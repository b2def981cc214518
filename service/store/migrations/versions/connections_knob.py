# SPDX-License-Identifier: Apache-2.0
"""The engine's knob `connections` in rows that were stored before there was one."""

from typing import Any

from ringtune.service.store.migrations.added_knobs import add_knobs

revision = "connections_knob"
down_revision = "job_records"
branch_labels = None
depends_on = None

KNOBS: dict[str, dict[str, Any]] = {
    "connections": {
        "kind": "number",
        "low": 1,
        "high": 16,
        "default": 1,
        "scale": "log2",
        "step": 1,
        "special": [],
    }
}
"""The knob that this step adds, as search spaces describe it."""


def upgrade() -> None:
    """Add the knobs to the texts that lack one."""
    add_knobs(KNOBS)


def downgrade() -> None:
    """Leave the rows: a program from before takes the knobs as it finds them."""
