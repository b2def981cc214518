# SPDX-License-Identifier: Apache-2.0
"""Operations inside graphs of TensorFlow and JAX: their libraries, compiled where a job runs."""
