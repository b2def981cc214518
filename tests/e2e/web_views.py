# SPDX-License-Identifier: Apache-2.0
"""Every view of the web pages, by name, and in which looks they are looked at."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.e2e.browsing import DESKTOP, PHONE, Visit

LOOKS: Mapping[str, tuple[str, dict[str, int]]] = {
    "desktop": ("light", DESKTOP),
    "phone_dark": ("dark", PHONE),
    "dark": ("dark", DESKTOP),
    "phone": ("light", PHONE),
}
"""Colour scheme and window size, by name."""


def views_of(client: httpx.Client) -> dict[str, str]:
    """Return the views of an open service that has two studies with results at least; names to paths."""
    items: list[dict[str, Any]] = client.get("/v1/studies").json()["items"]
    tuned, other, *rest = sorted(items, key=lambda item: (-item["jobs"], -item["trials"], item["id"]))
    line = next(line for line in client.get("/v1/export").text.splitlines() if '"job_id"' in line)
    job = line.partition('"job_id":')[2].split('"')[1]
    empty = [f"/studies/{item['id']}" for item in rest if not item["trials"]]
    key = tuned["key"]
    question = {"model_fingerprint": key["model"], "hardware": key["hardware"]}
    ranks, most = sum(key["layout"]), max(key["layout"])
    return {
        "studies": "/studies",
        "studies_filtered": f"/studies?{urlencode({'model': key['model'], 'sort': 'speedup'})}",
        "studies_none": "/studies?q=nothing+has+this+name",
        "study": f"/studies/{tuned['id']}",
        "study_other": f"/studies/{other['id']}",
        "study_of_a_job": f"/studies/{tuned['id']}?job={job}",
        **({"study_empty": empty[0]} if empty else {}),
        "compare": f"/compare?study={tuned['id']}&study={other['id']}",
        "compare_none": "/compare",
        "hardware": "/hardware",
        "hardware_none": "/hardware?q=nothing+has+this+name",
        "hardware_of_a_model": f"/hardware?model={key['model']}",
        "hardware_of_no_model": f"/hardware?model={'0' * 64}",
        "recommendations": "/recommendations",
        "recommendation": f"/recommendations?{urlencode({**question, 'world_size': ranks, 'local_size': most})}",
        "recommendation_near": f"/recommendations?{urlencode({**question, 'world_size': 2 * ranks})}",
        "recommendation_default": "/recommendations?model=never-seen&world_size=2",
        "recommendation_wrong": f"/recommendations?{urlencode({**question, 'world_size': 'many'})}",
        "tokens": "/tokens",
        "problem": "/studies/nothing",
    }


def keep_picture(seen: Visit, folder: str | None, name: str) -> None:
    """Write a picture of the page into a folder, if somebody wants some."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        seen.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
