# SPDX-License-Identifier: Apache-2.0
"""The shared service as its callers know it: the models of its REST interface, and the rule of its advice."""
