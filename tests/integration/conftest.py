# SPDX-License-Identifier: Apache-2.0
"""Signals as a terminal's programs have them: `make test &` in a script would have every job ignore SIGQUIT."""

import signal

for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
