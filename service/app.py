# SPDX-License-Identifier: Apache-2.0
"""The application: the domain, the routes and the layers before them, put together."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

import structlog
from anyio import to_thread
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool

from ringtune.service.api import health
from ringtune.service.api.access import Callers
from ringtune.service.api.admission import Admission
from ringtune.service.api.authorization import deny_undeclared
from ringtune.service.api.browser_sessions import BrowserSessions
from ringtune.service.api.dependencies import AppState
from ringtune.service.api.layers import install, layers
from ringtune.service.api.listeners import Listeners
from ringtune.service.api.metrics import Metrics
from ringtune.service.api.openapi import describe
from ringtune.service.api.pages import Pages, PageState
from ringtune.service.api.problems import install_handlers
from ringtune.service.api.recommendation_cache import RecommendationCache
from ringtune.service.api.v1 import ROUTERS
from ringtune.service.domain.overview import Overview
from ringtune.service.domain.policy import ServiceLimits
from ringtune.service.domain.retention import ClockDoubted
from ringtune.service.domain.service import Service
from ringtune.service.domain.values import Removed
from ringtune.service.domain.whole_tables import WholeTables
from ringtune.service.errors import ServiceError
from ringtune.service.settings import ServiceSettings
from ringtune.service.store.database import Database

TITLE = "ringtune service"
DESCRIPTION = (
    "Remembers which config was best for which hardware and model. Numbers are in the units of their names. Every "
    "write may be repeated as it is. Errors are problems (RFC 9457) with a stable code."
)
WORKER_THREADS = 32
"""More than the database has connections: those that wait for their commit hold none."""
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
FIRST_RETENTION_S = 600.0
"""Seconds from the start to the first retention."""
RETENTION_INTERVAL_S = HOUR_S


def create_app(settings: ServiceSettings, pages: Pages | None = None) -> FastAPI:
    """Return the application; its database is opened, and brought to this program's schema, when it starts.

    Args:
        settings: Place of the data, access, and limits.
        pages: For people; None for an API alone.

    Raises:
        ServiceError: If the database's URL cannot be used.
    """
    database = Database.open(settings.effective_database_url)
    service = Service(database, policy=policy_of(settings))
    listeners = Listeners(settings.events_clients_max)
    state = AppState(
        settings=settings,
        service=service,
        metrics=Metrics(service, listeners),
        cache=RecommendationCache(
            entries_max=settings.cache_entries_max, ttl_s=settings.cache_ttl_s, clock=time.monotonic
        ),
        listeners=listeners,
        admission=Admission(settings.requests_max),
        study_path=None if pages is None else pages.study_path,
    )
    app = FastAPI(
        title=TITLE,
        version=version("ringtune"),
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(deny_undeclared)],
        generate_unique_id_function=lambda route: route.name,
        lifespan=_lifespan(state),
    )
    callers = Callers(service, settings, time.monotonic)
    app.state.service_state = state
    app.state.pages = pages
    page_state = PageState(
        callers, BrowserSessions(service.page_sessions, callers), Overview(database), WholeTables(database)
    )
    app.state.pages_state = page_state
    for router in (health.router, *ROUTERS, *(pages.routers if pages else ())):
        app.include_router(router)
    install_handlers(app)
    install(app, layers(state, page_state, pages))
    app.openapi = _describe_once(app)  # type: ignore[method-assign]
    return app


def policy_of(settings: ServiceSettings) -> ServiceLimits:
    """Return the domain's limits, as far as they are settings."""
    max_age_s = None if settings.retention_days is None else settings.retention_days * DAY_S
    return ServiceLimits(
        design_workers=settings.design_workers,
        max_rows_per_token=settings.token_rows_per_day,
        max_bytes_per_token=settings.token_bytes_per_day,
        max_new_jobs_per_token=settings.token_jobs_per_day,
        max_age_s=max_age_s,
        max_session_s=settings.session_hours * HOUR_S,
        max_session_idle_s=settings.session_idle_hours * HOUR_S,
        max_sessions_per_token=settings.sessions_per_token_max,
    )


def _lifespan(state: AppState) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def run(_app: FastAPI) -> AsyncIterator[None]:
        """Open the database before the first request; finish accepted work after the last."""
        log = structlog.get_logger()
        to_thread.current_default_thread_limiter().total_tokens = WORKER_THREADS
        await run_in_threadpool(state.service.migrate)
        await run_in_threadpool(state.service.start)
        log.info("service_started")
        cleaning = [asyncio.create_task(work(state)) for work in (_keep_clean, _remove_ended_sessions)]
        try:
            yield
        finally:
            for task in cleaning:
                task.cancel()
            await run_in_threadpool(state.service.close)
            log.info("service_stopped")

    return run


async def _keep_clean(state: AppState) -> None:
    """Remove results that are too old, now and then; not at once: a wrong clock is often set soon after a start."""
    if state.settings.retention_days is None:
        return
    retention = state.service.retention
    await _tried(retention.begin)
    await asyncio.sleep(FIRST_RETENTION_S)
    was_refused = False
    while True:
        was_refused = await _tried(retention.apply, is_repeated=was_refused)
        await asyncio.sleep(RETENTION_INTERVAL_S)


async def _tried(work: Callable[[], Removed | None], *, is_repeated: bool = False) -> bool:
    """Do retention's work; a failure is logged, and the work tried again the next time.

    Args:
        work: The work, for a thread.
        is_repeated: Whether it was refused the last time: then it is not said again.

    Returns:
        Whether it was refused.
    """
    log = structlog.get_logger()
    try:
        removed = await run_in_threadpool(work)
        if removed is not None:
            log.info("retention_applied", results=removed.results, trials=removed.trials)
    except ClockDoubted as error:
        (log.debug if is_repeated else log.warning)("retention_refused", detail=error.detail)
        return True
    except ServiceError as error:
        log.warning("retention_failed", detail=error.detail)
    except Exception:  # whatever it is, an hour later it may be mended
        log.exception("retention_failed", detail="this is a bug of the service, or of its database")
    return False


async def _remove_ended_sessions(state: AppState) -> None:
    """Remove the sessions of browsers that are over, at the start and every hour; a sign-in does it, too."""
    log = structlog.get_logger()
    while True:
        try:
            removed = await run_in_threadpool(state.service.page_sessions.remove_ended)
            log.debug("ended_sessions_removed", sessions=removed)
        except ServiceError as error:
            log.warning("ended_sessions_not_removed", detail=error.detail)
        await asyncio.sleep(HOUR_S)


def _describe_once(app: FastAPI) -> Callable[[], dict[str, object]]:
    """Return the function that gives the OpenAPI description, derived when it is first asked for."""

    def description() -> dict[str, object]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    return description
