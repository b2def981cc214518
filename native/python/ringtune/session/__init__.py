# SPDX-License-Identifier: Apache-2.0
"""A front end's base: joining and leaving, process sets, submissions, waiting."""
