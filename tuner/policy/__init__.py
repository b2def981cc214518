# SPDX-License-Identifier: Apache-2.0
"""Policy: chooses the configs to try, the length of their windows, the end of the search, and the adoption."""
