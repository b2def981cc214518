# SPDX-License-Identifier: Apache-2.0
"""Replies to a browser: content policy, caching, and errors as pages with advice."""

import csv
import gzip
import io
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs
from starlette.testclient import TestClient

from ringtune.dashboards.web.views import study as study_view
from ringtune.dashboards.web.views.hardware import PAGE
from ringtune.service.domain import verdicts
from ringtune.tuner import Config, default_config
from tests.contract.service.applications import application
from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body
from tests.contract.web.applications import BROWSER, HERE, application_with_pages
from tests.unit.dashboards.pages import Page

VIEWS = (
    "/studies",
    "/compare",
    "/hardware",
    f"/hardware?model={'a' * 64}",
    "/recommendations",
    "/recommendations?model=nobody&world_size=4&local_size=2",
    "/tokens",
)
INLINE = re.compile(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*(\ssrc=|application/json))|javascript:", re.IGNORECASE)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A browser before an application that is open and empty."""
    app = application_with_pages(tmp_path_factory.mktemp("pages"), has_tokens=False)
    with TestClient(app, base_url=HERE, headers=BROWSER, follow_redirects=False) as made:
        yield made


@pytest.mark.parametrize("path", VIEWS)
def test_an_empty_service_names_the_next_step(path: str, client: TestClient) -> None:
    """Every view is whole HTML, has one title, landmarks, and no inline script or style."""
    reply = client.get(path)
    page = Page.of(reply.text)

    assert 200 == reply.status_code
    assert [] == page.unclosed
    assert [1, 1, 1] == [len(page.all(tag)) for tag in ("h1", "main", "title")]
    assert None is INLINE.search(reply.text)
    assert "http" not in {link.attributes.get("href", "").partition(":")[0] for link in page.all("link")}


def test_a_study_s_reply_names_its_page_where_there_are_pages(tmp_path: Path) -> None:
    """A job prints this path below the service's address: it leads to the page; an API alone names none."""
    named = []
    for made in (application_with_pages(tmp_path, has_tokens=False), application(tmp_path, has_tokens=False)):
        with TestClient(made, base_url=HERE, headers=BROWSER) as caller:
            reply = caller.post("/v1/studies", json=STUDY_BODY).json()
            named.append(reply["page"])
            assert [reply["page"]] == [item["page"] for item in caller.get("/v1/studies").json()["items"]]
            assert reply["page"] == caller.get(f"/v1/studies/{reply['id']}").json()["page"]
            assert (200 if reply["page"] else 404) == caller.get(f"/studies/{reply['id']}").status_code

    assert [f"/studies/{reply['id']}", None] == named


@pytest.mark.parametrize("path", [*VIEWS, "/", "/studies/nothing", "/nowhere", "/static/nothing.js"])
def test_only_our_files_may_run(path: str, client: TestClient) -> None:
    """Every reply has the policy, and no browser keeps a page."""
    headers = client.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))

    assert ("'none'", "'self'", "'self'") == (policy["default-src"], policy["script-src"], policy["style-src"])
    assert ("'none'", "'self'", "'none'") == (policy["base-uri"], policy["form-action"], policy["frame-ancestors"])
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert ("nosniff", "DENY", "no-store") == (
        headers["x-content-type-options"],
        headers["x-frame-options"],
        headers["cache-control"],
    )


def test_static_files_are_kept_for_ever_under_their_hash(client: TestClient) -> None:
    """Each has its type, and is the same compressed; plotly.js is the installed wheel's."""
    urls = set(re.findall(r"/static/[\w.-]+", client.get("/studies").text + client.get("/recommendations").text))
    urls |= client.app.state.pages.assets.urls  # type: ignore[attr-defined]
    kinds = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

    assert len(urls) >= 5
    for url in urls:
        assert re.fullmatch(r"/static/[\w.]+\.[0-9a-f]{16}\.(css|js|svg)", url)
        plain, packed = (client.get(url, headers={"accept-encoding": kind}) for kind in ("identity", "br;q=1, gzip"))
        assert ("public, max-age=31536000, immutable", "nosniff", kinds[url.rpartition(".")[2]]) == (
            plain.headers["cache-control"],
            plain.headers["x-content-type-options"],
            plain.headers["content-type"],
        )
        assert ("gzip", plain.content) == (packed.headers["content-encoding"], packed.content)
        assert "content-encoding" not in plain.headers
        if "/plotly." in url:
            assert get_plotlyjs().encode() == plain.content
            assert int(packed.headers["content-length"]) == len(gzip.compress(plain.content, mtime=0))


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/studies/nothing", 404, "There is no such study"),
        ("/nowhere", 404, "There is no such call"),
        ("/studies?page=x", 422, "The request is not as described"),
        ("/studies?sort=nonsense", 422, "allowed: created"),
        ("/studies?finding=nonsense", 422, "confirmed"),
        ("/studies?q=%00", 422, "NUL"),
        ("/studies/%00", 422, "NUL"),
        ("/compare?study=%00", 422, "NUL"),
        ("/recommendations?model=a%00b", 422, "NUL"),
        ("/recommendations?model=x&world_size=0", 422, "is no layout"),
        ("/recommendations?model=x&world_size=many", 422, "no count of ranks"),
        ("/recommendations?model_fingerprint=xyz", 422, "no fingerprint"),
        ("/compare?" + "&".join(f"study={number}" for number in range(7)), 422, "choose fewer"),
    ],
)
def test_errors_are_pages_that_name_the_remedy(path: str, status: int, words: str, client: TestClient) -> None:
    """An error page has a link to go on, and the id under which the log has more."""
    reply = client.get(path)

    assert status == reply.status_code
    assert words in reply.text
    assert "text/html; charset=utf-8" == reply.headers["content-type"]
    assert [] == Page.of(reply.text).unclosed


def test_programs_get_problems_as_json(client: TestClient) -> None:
    """On the API's paths whatever they accept, elsewhere unless they want a page."""
    for path, accept in (("/v1/studies/x", BROWSER["accept"]), ("/nowhere", "application/json"), ("/studies/x", "*/*")):
        reply = client.get(path, headers={"accept": accept})
        assert "application/problem+json" == reply.headers["content-type"], path


def test_a_page_loads_no_file_from_elsewhere(client: TestClient) -> None:
    """No content delivery network, no font, no beacon."""
    for path in VIEWS:
        page = Page.of(client.get(path).text)
        found = [e.attributes.get(name, "") for e in page.elements for name in ("src", "href", "action")]
        assert [] == [url for url in found if url and not url.startswith(("/", "#"))], path


def report_adoption(client: TestClient, study_id: str, job_id: str, baseline: Config, better: Config) -> None:
    """Report that a job has adopted a config over a baseline."""
    test = {"speedup": 0.1, "ci_low": 0.05, "ci_high": 0.15, "pairs": 8, "ci_level": 0.9}
    bodies = [
        result_body(job_id, config=baseline.to_json(), phase="baseline"),
        result_body(job_id, config=better.to_json(), phase="adoption", adoption=test),
    ]
    results = [{**body, "trial_id": str(uuid.uuid4())} for body in bodies]
    assert 200 == client.post(f"/v1/studies/{study_id}/results", json={"results": results}).status_code


def test_changed_knobs_are_shown_beside_the_baseline_of_the_speed_up(tmp_path: Path) -> None:
    """However many jobs began with another one."""
    poor, better = (default_config().replace({"fusion_bytes": kib << 10}) for kib in (64, 8192))
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        study_id = client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        for baseline, job_id in ((default_config(), UUIDS[0]), (poor, UUIDS[1]), (poor, UUIDS[2])):
            report_adoption(client, study_id, job_id, baseline, better)

        text = client.get(f"/studies/{study_id}").text

    assert "Step under the default" in text
    row = re.search("<tr class=.changed.>.*fusion_bytes.*", text)
    assert row is not None
    assert ["64 MiB", "8 MiB"] == re.findall(r"<td><bdi>(.*?)</bdi></td>", row[0])


def test_a_gain_over_another_baseline_is_told_as_one(tmp_path: Path) -> None:
    """Two jobs that adopt over a baseline of their own do not confirm; the page gives the reason, and no default."""
    poor, better = (default_config().replace({"fusion_bytes": kib << 10}) for kib in (64, 8192))
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        study_id = client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        for job_id in UUIDS[:2]:
            report_adoption(client, study_id, job_id, poor, better)

        text = client.get(f"/studies/{study_id}").text

    assert "over another baseline than the default" in text
    assert "Step under the baseline" in text
    assert ["Step, baseline"] == sorted(set(re.findall("Step, [a-z]+", text)))


def test_pages_of_hardware_are_complete(tmp_path: Path) -> None:
    """Each row is shown once, and the last page leads no further."""
    count = PAGE + 3
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        for number in range(count):
            key = {**STUDY_BODY["key"], "hardware": f"{number:064x}"}
            assert 200 == client.post("/v1/studies", json={**STUDY_BODY, "key": key}).status_code

        pages = [client.get("/hardware", params={"page": page}).text for page in (1, 2)]

    shown = [number for page in pages for number in re.findall(r"hardware=([0-9a-f]{64})", page)]
    assert sorted(f"{number:064x}" for number in range(count)) == sorted(shown)
    assert [True, False] == ['rel="next"' in page for page in pages]


def test_tables_are_downloaded_as_csv(tmp_path: Path) -> None:
    """A table is downloaded as its page shows it, with plain numbers; an unknown table is an error that says so."""
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        study_id = client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        result = {**result_body(UUIDS[0], phase="baseline"), "trial_id": UUIDS[2]}
        assert 200 == client.post(f"/v1/studies/{study_id}/results", json={"results": [result]}).status_code
        named = {"state": "ended_early", "name": "first, try", "tags": ["a", "b"]}
        assert 200 == client.put(f"/v1/studies/{study_id}/jobs/{UUIDS[0]}", json=named).status_code
        paths = [f"/studies/{study_id}/{table}.csv" for table in ("jobs", "configs", "results")]
        replies = [client.get(path) for path in (*paths, "/studies.csv", f"/compare.csv?study={study_id}")]
        missing = client.get(f"/studies/{study_id}/secrets.csv")
        linked = re.findall(r"href=.([^\"']+\.csv)", client.get(f"/studies/{study_id}").text)

    assert {"text/csv; charset=utf-8"} == {reply.headers["content-type"] for reply in replies}
    jobs, _, results, studies, _ = (list(csv.DictReader(io.StringIO(reply.text))) for reply in replies)
    assert [("first, try", "a, b", "ended early", "10.0")] == [
        (row["name"], row["tags"], row["state"], row["default_step_ms"]) for row in jobs
    ]
    assert ["true"] == [row["used"] for row in results]
    assert [(study_id, "1", "undecided")] == [
        (row["study"], row["jobs_ended_early"], row["finding"]) for row in studies
    ]
    assert 404 == missing.status_code
    assert set(linked) <= set(paths)
    assert paths[0] in linked


def test_a_page_that_shows_a_part_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are those of all; a job that a link names is shown, however many others there are."""
    monkeypatch.setattr(study_view, "MAX_SHOWN_JOBS", 2)
    monkeypatch.setattr(study_view, "MAX_SHOWN_CONFIGS", 1)
    monkeypatch.setattr(verdicts, "MAX_JOBS", 2)
    monkeypatch.setattr(verdicts, "MAX_CONFIGS", 2)
    with TestClient(application_with_pages(tmp_path, has_tokens=False), base_url=HERE, headers=BROWSER) as client:
        study_id = client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        jobs = [f"{number:08d}-0000-4000-8000-000000000000" for number in range(5)]
        for number, job in enumerate(jobs):
            result = result_body(job)
            body = {**result, "trial_id": job, "config": {**result["config"], "cycle_ms": 0.5 + number}}
            assert 200 == client.post(f"/v1/studies/{study_id}/results", json={"results": [body]}).status_code
        page = client.get(f"/studies/{study_id}").text
        of_first = client.get(f"/studies/{study_id}", params={"job": jobs[0]}).text
        of_none = client.get(f"/studies/{study_id}", params={"job": UUIDS[3]}).text
        listed = client.get(f"/v1/studies/{study_id}/jobs", params={"limit": 2}).json()
        rest = client.get(f"/v1/studies/{study_id}/jobs", params={"cursor": listed["next_cursor"]}).json()

    assert "<dt>Jobs</dt><dd>5</dd>" in page
    assert "The latest 2 of 5 jobs; the CSV has all." in page
    assert "The best 1 of 5 configs; the CSV has all." in page
    assert "Live: 5 jobs are running" in page
    assert "has this id" not in of_first
    assert "has this id" in of_none
    assert sorted(jobs) == sorted(job["job_id"] for job in (*listed["items"], *rest["items"]))
    assert rest["next_cursor"] is None
