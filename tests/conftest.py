# SPDX-License-Identifier: Apache-2.0
"""The end of all tests by SIGTERM, as `timeout` and continuous integration send it, leaves nothing running."""

from tests.termination import unwind_at_sigterm

unwind_at_sigterm()
