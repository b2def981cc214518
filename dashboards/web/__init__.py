# SPDX-License-Identifier: Apache-2.0
"""The web pages of `ringtune serve`: studies, live; comparisons; recommendations; tokens.

Pages are made here, in Python, from the reads of the service's domain; the figures are the report's. A page needs no
script to be read: the one ES module draws figures, follows events and copies settings.
"""

from .site import WebPages

__all__ = ["WebPages"]
