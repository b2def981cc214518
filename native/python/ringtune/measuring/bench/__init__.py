# SPDX-License-Identifier: Apache-2.0
"""`ringtune bench`: this machine's limit, this engine and its peers at the same allreduces, in one interleaved run.

Each *contestant* is a command that measures all sizes and prints a line of JSON per size. In each *round* every
contestant is launched anew, in an order drawn anew; contestants are compared within rounds, because a machine's speed
changes between them.

The ranks' programs are modules of this package: it imports no others, so that a program loads only its own needs.
"""
