# SPDX-License-Identifier: Apache-2.0
"""One file per revision of the schema, in the order that each names."""
