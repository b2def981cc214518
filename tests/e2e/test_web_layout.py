# SPDX-License-Identifier: Apache-2.0
"""Layout of the pages with long names and many rows, on a screen and on a phone, in a real browser."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ringtune.tuner import default_config
from tests.contract.service.applications import ADMIN_SECRET
from tests.e2e.browsing import DESKTOP, visiting
from tests.e2e.web_service import WebService, web_service

pytestmark = pytest.mark.timeout(600)
PHONE = {"width": 390, "height": 844}
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
LONG_NAME = "n" * 188
LONG_TAG = "t" * 200
CONFIGS = 30


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    """A service with an admin's token, a token with a long name, and a study of many configs and a long tag."""
    tokens = {"RINGTUNE_SERVICE_ADMIN_TOKEN": ADMIN_SECRET}
    with web_service(tmp_path_factory.mktemp("layout"), tokens, ADMIN_SECRET) as running:
        body = {"name": LONG_NAME, "scopes": ["read"]}
        assert 201 == running.client.post("/v1/tokens", json=body).status_code
        study_id, job_id = running.study("1", "c"), str(uuid.uuid4())
        for number in range(CONFIGS):
            baseline = {"job_id": job_id, "phase": "baseline", "step_ms": {"median": 20.0, "mad": 0.1, "mean": 20.1}}
            running.report(study_id, **baseline)
            config = default_config().replace({"fusion_bytes": (number + 1) << 20})
            running.report(study_id, job_id=job_id, config=config.to_json(), phase="search")
        tagged = {"state": "running", "name": "a job", "tags": [LONG_TAG]}
        assert 200 == running.client.put(f"/v1/studies/{study_id}/jobs/{job_id}", json=tagged).status_code
        yield running


def open_page(page: Any, service: WebService, path: str) -> None:
    """Open a page as an admin."""
    page.goto(service.url + "/sign-in")
    page.get_by_role("textbox", name="Token").fill(ADMIN_SECRET)
    with page.expect_navigation():
        page.get_by_role("button", name="Sign in").click()
    page.goto(service.url + path)


def study_path(service: WebService) -> str:
    """Return the path of the study's page."""
    return f"/studies/{service.client.get('/v1/studies').json()['items'][0]['id']}"


@SIZES
def test_a_long_name_leaves_a_token_s_other_columns_in_sight(
    size: dict[str, int], browser: Any, service: WebService
) -> None:
    """A token's id is no column of single characters, and the button that revokes it lies within the window."""
    with visiting(browser, size=size) as seen:
        open_page(seen.page, service, "/tokens")
        code = seen.page.locator("table td code").first.bounding_box()
        button = seen.page.get_by_role("button", name="Revoke").first.bounding_box()

        assert code["width"] > 2 * code["height"]
        assert button["x"] + button["width"] <= size["width"]
        assert seen.overflow <= 0


@SIZES
def test_a_long_tag_does_not_widen_a_study_s_page(size: dict[str, int], browser: Any, service: WebService) -> None:
    """A tag of 200 characters breaks within its cell."""
    with visiting(browser, size=size) as seen:
        open_page(seen.page, service, study_path(service))
        tag = seen.page.locator(".tag").first.bounding_box()

        assert tag["x"] + tag["width"] <= size["width"]
        assert seen.overflow <= 0


def test_the_evidence_of_a_study_shows_several_rows(browser: Any, service: WebService) -> None:
    """The box of the evidence is as high as other long tables'."""
    with visiting(browser) as seen:
        open_page(seen.page, service, study_path(service))
        box = seen.page.locator(".scroll.evidence").bounding_box()

        assert box["height"] > 400


@SIZES
def test_parallel_coordinates_are_on_wider_screens_alone(
    size: dict[str, int], browser: Any, service: WebService
) -> None:
    """A phone gets a sentence in place of the figure with its caption."""
    with visiting(browser, size=size) as seen:
        open_page(seen.page, service, study_path(service))
        seen.page.locator("#modelled").evaluate("folded => { folded.open = true; }")
        caption, sentence = seen.page.locator("#figure-parallel-summary"), seen.page.locator(".on-phones")

        assert [size == DESKTOP, size == PHONE] == [caption.is_visible(), sentence.is_visible()]
