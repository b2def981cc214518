# SPDX-License-Identifier: Apache-2.0
"""The service's log: one line per fact on stderr, for people or as JSON; libraries' warnings come the same way."""

import logging
import sys
from typing import Any

import structlog


def configure_logging(level: str, log_format: str) -> None:
    """Set up the process's log.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        log_format: `text` or `json`.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: Any = structlog.processors.JSONRenderer()
    if log_format == "text":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            exception_formatter=structlog.dev.plain_traceback,  # the prettier one shows local variables: secrets
        )
    else:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler], force=True)
