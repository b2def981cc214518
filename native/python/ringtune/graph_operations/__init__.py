# SPDX-License-Identifier: Apache-2.0
"""Libraries for graphs of TensorFlow and JAX and for process groups of torch, compiled where a job runs."""
