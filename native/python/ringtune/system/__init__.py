# SPDX-License-Identifier: Apache-2.0
"""Ground floor: files, streams, text, data and processors of a process; knows neither jobs nor ranks."""
