# SPDX-License-Identifier: Apache-2.0
"""The job's link to the shared service: a first config, reports from a background thread, a spool on disk.

It never raises into training, never makes it wait, and ends in a bounded time. `httpx` is imported where there is a
service, and nowhere else.
"""

from .link import NoService, Notices, ServiceJob, ServiceLink, service_link

__all__ = ["NoService", "Notices", "ServiceJob", "ServiceLink", "service_link"]
