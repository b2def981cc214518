# SPDX-License-Identifier: Apache-2.0
"""The report: one page that holds everything it needs, for a browser without network, or for paper."""
