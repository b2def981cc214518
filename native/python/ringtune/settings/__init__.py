# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment: names, Horovod's among them, how they are read, and the settings that they make."""
