# SPDX-License-Identifier: Apache-2.0
"""Commands of `ringtune`, each imported when it is called."""
