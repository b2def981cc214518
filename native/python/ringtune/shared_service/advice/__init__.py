# SPDX-License-Identifier: Apache-2.0
"""Advice: the one rule for the config that a job should run with, for the command, the service and its pages.

It knows verdicts of jobs, votes of reporters and configs. It must not know where they are stored, or how an answer is
shown: the service reads them from its tables, the command from the runs of this machine.
"""
