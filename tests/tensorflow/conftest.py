# SPDX-License-Identifier: Apache-2.0
"""TensorFlow writes errors alone and computes on one core, in every process of these tests and in the fork server."""

import os

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}
