# SPDX-License-Identifier: Apache-2.0
"""The engine's knobs for NCCL in rows that were stored before there were any."""

from typing import Any

from ringtune.service.store.migrations.added_knobs import add_knobs

revision = "later_knobs"
down_revision = "job_reports"
branch_labels = None
depends_on = None

KNOBS: dict[str, dict[str, Any]] = {
    "nccl_pack_bytes": {
        "kind": "number",
        "low": 1024,
        "high": 67108864,
        "default": 262144,
        "scale": "log2",
        "step": 1024,
        "special": [0],
    },
    "nccl_ctas": {
        "kind": "number",
        "low": 1,
        "high": 32,
        "default": "auto",
        "scale": "log2",
        "step": 4,
        "special": ["auto"],
    },
    "nccl_hierarchical": {"kind": "boolean", "default": False},
}
"""The knobs that this step adds, as search spaces describe them."""


def upgrade() -> None:
    """Add the knobs to the texts that lack one."""
    add_knobs(KNOBS)


def downgrade() -> None:
    """Leave the rows: a program from before takes the knobs as it finds them."""
