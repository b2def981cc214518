# SPDX-License-Identifier: Apache-2.0
"""Alembic's migrations, part of the package: `schema.migrate` runs them."""
