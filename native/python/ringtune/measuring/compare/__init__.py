# SPDX-License-Identifier: Apache-2.0
"""`ringtune compare`: a training script under DDP and under ringtune's engine, in fresh jobs, interleaved in pairs."""
