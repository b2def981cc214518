# SPDX-License-Identifier: Apache-2.0
"""The web pages of `ringtune serve`: studies, live; comparisons; recommendations; tokens.

Pages are made here, in Python, from what the service's domain reads; the figures are the report's. A page needs no
script to be read: the one ES module draws figures, follows what happens and copies settings.
"""

from .site import WebPages

__all__ = ["WebPages"]
