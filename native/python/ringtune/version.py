# SPDX-License-Identifier: Apache-2.0
"""The version, for modules of this package: its face imports the session and the launcher."""

__version__ = "0.2.0"
