# SPDX-License-Identifier: Apache-2.0
"""The type of a row: columns by name."""

from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[Any, Any]
"""What the database returns, or a dictionary of columns on its way there."""
