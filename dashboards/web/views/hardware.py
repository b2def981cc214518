# SPDX-License-Identifier: Apache-2.0
"""Machines: the findings on each for each model, and one model on all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.figures.figure import Figure
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.wording import hardware_of, layout, name_of, short
from ringtune.service.domain.overview import ListedStudy, Wanted

from .compare import compared, comparison_figures
from .dependencies import READERS_PAGE, OverviewDep, PageNumber, Text, new_router, on_page_threads

PAGE = 50
MODELS = 20
MAX_DRAWN = 20
MAX_MACHINES = 6
"""Columns of the table of findings: more do not fit a page."""
MAX_STUDIES = 200

router = new_router()


@dataclass(frozen=True)
class Findings:
    """Findings for models on machines.

    Attributes:
        machines: A study of each machine, for its name.
        rows: A study of each model, for its name, and its studies on each of the machines.
        left_out: Machines beyond those that are shown.
        models_left_out: Models on these machines beyond those that are shown.
    """

    machines: Sequence[ListedStudy]
    rows: Sequence[tuple[ListedStudy, Sequence[Sequence[ListedStudy]]]]
    left_out: int
    models_left_out: int


@router.get("/hardware", dependencies=READERS_PAGE)
@on_page_threads
def hardware(request: Request, overview: OverviewDep, q: Text = "", model: Text = "", page: PageNumber = 1) -> Response:
    """List machines with their findings, or compare them by one model."""
    if model:
        listed = overview.of_model(model)
        studies = listed.items
        drawn = compared(studies[:MAX_DRAWN], by_hardware=True)
        context = {
            "model": model,
            "name": name_of(studies[0]) if studies else f"model {short(model)}",
            "studies": studies,
            "studies_left_out": listed.total - len(studies),
            "figures": comparison_figures(studies, drawn),
            "left_out": max(0, len(studies) - MAX_DRAWN),
        }
        return respond(request, "hardware_model.html.j2", context)
    listed = overview.studies(Wanted(text=q.strip()), "activity", limit=MAX_STUDIES)
    found, models = listed.items, overview.models(q.strip(), MODELS + 1)
    machines = overview.hardware(q.strip(), page=page, limit=PAGE)
    context = {
        "findings": findings_of(found),
        "figures": _figures(found),
        "hardware": machines,
        "models": models[:MODELS],
        "has_more_models": len(models) > MODELS,
        "studies_left_out": listed.total - len(found),
        "q": q,
        "page": page,
        "has_more": bool(overview.hardware(q.strip(), page=page * PAGE + 1, limit=1)),
    }
    return respond(request, "hardware.html.j2", context)


def findings_of(studies: Sequence[ListedStudy]) -> Findings:
    """Return studies as a table of models by machines, those with the most studies first."""
    by_machine, by_model = _grouped(studies, "hardware"), _grouped(studies, "model")
    shown = list(by_machine)[:MAX_MACHINES]
    rows = [
        (own[0], [[study for study in own if study.key.hardware == machine] for machine in shown])
        for own in by_model.values()
    ]
    rows = [(own, cells) for own, cells in rows if any(cells)]
    machines = [by_machine[machine][0] for machine in shown]
    return Findings(machines, rows[:MODELS], len(by_machine) - len(shown), max(0, len(rows) - MODELS))


def _grouped(studies: Sequence[ListedStudy], by: str) -> dict[str, list[ListedStudy]]:
    groups: dict[str, list[ListedStudy]] = {}
    for study in studies:
        groups.setdefault(getattr(study.key, by), []).append(study)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _figures(studies: Sequence[ListedStudy]) -> list[Figure]:
    """Return the figures of studies under names that tell machines apart."""
    has_machines = len({study.key.hardware for study in studies}) > 1
    has_layouts = len({study.key.layout for study in studies}) > 1
    names = [
        ", ".join(
            [
                name_of(study),
                *([hardware_of(study)] if has_machines else []),
                *([layout(study.key.layout)] if has_layouts else []),
            ]
        )
        for study in studies
    ]
    return comparison_figures(studies, compared(studies[:MAX_DRAWN], names=names))
