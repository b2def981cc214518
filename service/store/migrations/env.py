# SPDX-License-Identifier: Apache-2.0
"""Runs migrations on the connection and in the transaction that `schema.migrate` has begun."""

from alembic import context

from ringtune.service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
context.run_migrations()
