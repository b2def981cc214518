# SPDX-License-Identifier: Apache-2.0
"""Jobs, on both databases: their facts, and the state that follows from these and from their silence."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from ringtune.service.domain import Service
from ringtune.service.domain.canonical import canonical
from ringtune.service.domain.jobs import FIRST_RESULT_S, MIN_SILENCE_S, JobReport, StudyJob
from ringtune.service.domain.overview import Overview, Wanted
from ringtune.service.domain.values import PairedTestResult, RecommendationQuery
from ringtune.service.errors import InvalidRequest, StudyNotFound
from ringtune.service.store import Database, studies
from ringtune.tuner import Phase
from ringtune.tuner.priors.relevance import StudyKey
from tests.integration.service_store.archives import sealed
from tests.integration.service_store.silent_jobs import MACHINE, RUNNING, announce, report_at
from tests.unit.service.domain.reported import BETTER, KEY, new_id, result, study_of, tell

LOST = PairedTestResult(-0.01, -0.03, 0.01, 6)
WON = PairedTestResult(0.1, 0.05, 0.15, 6)


def jobs_of(service: Service, study_id: str) -> dict[str, StudyJob]:
    """Return the jobs of a study by id."""
    return {job.job_id: job for job in service.jobs.of_study(study_id, 100).items}


def test_a_job_has_its_reported_facts(service: Service) -> None:
    """A job's name, tags and commit are kept; its decision stays, whatever is delivered later."""
    study_id = study_of(service).study_id
    decided = replace(RUNNING, state="keeping_default", verdict="keeping default: nothing gains")

    service.jobs.put(study_id, "job", RUNNING)
    (running,) = service.jobs.of_study(study_id, 10).items
    service.jobs.put(study_id, "job", decided)
    late = service.jobs.put(study_id, "job", RUNNING)
    ended = service.jobs.put(study_id, "job", JobReport(state="ended_early", name="renamed"))
    (job,) = service.jobs.of_study(study_id, 10).items

    assert ("running", None) == (running.state, running.verdict)
    assert ("first try", ("nightly", "a100"), "9fceb02") == (running.name, running.tags, running.commit)
    assert ["keeping_default"] * 2 == [late.state, ended.state]
    assert ("keeping_default", "keeping default: nothing gains") == (job.state, job.verdict)
    assert "renamed" == job.name


def test_a_job_that_is_silent_for_too_long_is_lost(service: Service, database: Database) -> None:
    """Five times its longest gap, three minutes at least; before its first result it has longer."""
    study_id = study_of(service).study_id
    slow_gap_s = 600.0
    ages = {
        "quick, silent": [MIN_SILENCE_S + 20, MIN_SILENCE_S + 10],
        "quick": [MIN_SILENCE_S + 20, MIN_SILENCE_S - 60],
        "slow": [2 * slow_gap_s, slow_gap_s],
        "slow, silent": [8 * slow_gap_s, 7 * slow_gap_s],
    }
    for job_id, times in ages.items():
        announce(service, database, study_id, job_id, times[0])
        report_at(service, database, study_id, job_id, times)
    announce(service, database, study_id, "warms up", FIRST_RESULT_S - 60)
    announce(service, database, study_id, "never reported", FIRST_RESULT_S + 10)
    report_at(service, database, study_id, "old client", [MIN_SILENCE_S + 10])

    states = {job_id: job.state for job_id, job in jobs_of(service, study_id).items()}

    lost = {"quick, silent", "slow, silent", "never reported", "old client"}
    assert lost == {job_id for job_id, state in states.items() if state == "lost"}
    assert {"quick", "slow", "warms up"} == {job_id for job_id, state in states.items() if state == "running"}
    assert Counter(states.values()) == Overview(database).study(study_id).study.states


def test_a_paired_test_is_a_decision_and_an_end_is_none(service: Service, database: Database) -> None:
    """A silent job counts as adopted where the interval of its paired test is above zero."""
    study_id = study_of(service).study_id
    for job_id, found in (("won", WON), ("kept", LOST)):
        tell(service, study_id, new_id(), result(job_id, phase=Phase.BASELINE))
        tell(service, study_id, new_id(), result(job_id, BETTER, 90.0, phase=Phase.ADOPTION, adoption=found))
    service.jobs.put(study_id, "ended", JobReport(state="ended_early"))

    jobs = jobs_of(service, study_id)

    assert {"won": "adopted", "kept": "keeping_default", "ended": "ended_early"} == {
        job_id: job.state for job_id, job in jobs.items()
    }
    assert Counter(job.state for job in jobs.values()) == Overview(database).study(study_id).study.states
    assert (WON, BETTER, 2) == (jobs["won"].test, jobs["won"].tested, jobs["won"].results)


def test_a_list_of_studies_counts_the_same_states(service: Service, database: Database) -> None:
    """The list has the states of the study's own page, for jobs that reported or had a test."""
    study_id = study_of(service).study_id
    announce(service, database, study_id, "runs", 30.0)
    report_at(service, database, study_id, "runs", [20.0, 10.0])
    announce(service, database, study_id, "lost", 2 * MIN_SILENCE_S)
    report_at(service, database, study_id, "lost", [1.5 * MIN_SILENCE_S + 10, 1.5 * MIN_SILENCE_S])
    service.jobs.put(study_id, "ended", JobReport(state="ended_early"))
    tell(service, study_id, new_id(), result("won", BETTER, 90.0, phase=Phase.ADOPTION, adoption=WON))
    overview = Overview(database)

    shown = overview.study(study_id)

    assert {"runs": "running", "lost": "lost", "ended": "ended_early", "won": "adopted"} == {
        job.job_id: job.state for job in shown.jobs
    }
    assert dict.fromkeys(("running", "lost", "ended_early", "adopted"), 1) == dict(shown.study.states)


def test_names_are_those_that_most_tokens_gave(service: Service, database: Database) -> None:
    """One token does not rename a study that others named, and keeps no name by coming first."""
    first, honest, other = ("1" * 16, "2" * 16, "3" * 16)
    key, space = KEY, study_of(service, replace(KEY, model="f" * 64), None).space
    overview = Overview(database)

    def said(token: str, name: str | None, hardware: str | None, key: StudyKey = key) -> str:
        made = service.studies.find_or_create(
            key, space_json=space, model_name=name, hardware_name=hardware, token_id=token
        )
        return made.study_id

    squatted = said(first, "~ model", "~ machine")
    assert "~ model" == overview.study(squatted).study.model_name
    said(honest, "resnet50", "cluster A")
    assert "~ model" == overview.study(squatted).study.model_name
    said(other, "resnet50", None)
    service.jobs.put(squatted, "job", JobReport(hardware_name="cluster A"), other)
    invented = said(first, "~ other", "~ renamed", replace(key, model="e" * 64))

    shown = overview.study(squatted).study
    assert ("resnet50", "cluster A") == (shown.model_name, shown.hardware_name)
    assert "~ renamed" == overview.study(invented).study.hardware_name
    nameless = said(honest, None, None, replace(key, model="d" * 64))
    assert "cluster A" == overview.study(nameless).study.hardware_name
    assert ["cluster A"] == [item.name for item in overview.hardware() if item.fingerprint == key.hardware]
    assert "resnet50" in [item.name for item in overview.models()]
    service.token_results.delete(other)
    service.token_results.delete(honest)
    assert "~ model" == overview.study(squatted).study.model_name


def test_a_name_finds_the_model_that_most_tokens_call_so(service: Service, database: Database) -> None:
    """Invented models of the same name, however many, hide neither one of the hardware nor one of several tokens."""
    space = study_of(service).space
    tokens = ("1" * 16, "2" * 16, "3" * 16)

    def measured(key: StudyKey, *names: str) -> None:
        for token in names:
            study = service.studies.find_or_create(key, space_json=space, model_name="net", token_id=token)
            report = replace(result(f"{token} {key.model[-4:]}", phase=Phase.BASELINE), token_id=token)
            tell(service, study.study_id, new_id(), report)

    for number in range(4):
        measured(replace(KEY, hardware="c" * 64, model=f"{number:064x}"), tokens[0])
    measured(replace(KEY, hardware="c" * 64, model="e" * 64), *tokens[1:])
    measured(replace(KEY, model="d" * 64), tokens[1])

    with database.looking() as connection:
        found, number = studies.models_named(connection, "net", KEY.target, 2, KEY.hardware)
        elsewhere, _ = studies.models_named(connection, "net", KEY.target, 2)

    assert (["d" * 64, "e" * 64], 6) == ([row.model for row in found], number)
    assert "e" * 64 == elsewhere[0].model
    query = RecommendationQuery(hardware=KEY.hardware, world_size=2, local_size=2, model_name="net")
    reason = service.recommendations.find(query).reason
    assert reason is not None
    assert reason.startswith("6 models")


def test_the_jobs_of_a_study_are_listed_page_by_page(service: Service, database: Database) -> None:
    """Each is on one page, the last ones to report first, by their facts or results."""
    study_id = study_of(service).study_id
    for number in range(4):
        announce(service, database, study_id, f"says {number}", 1000.0 * number)
        report_at(service, database, study_id, f"reports {number}", [1000.0 * number + 500])
    report_at(service, database, study_id, "says 3", [250.0])
    expected = ["says 0", "says 3", "reports 0", "says 1", "reports 1", "says 2", "reports 2", "reports 3"]

    pages = [service.jobs.of_study(study_id, 3)]
    while pages[-1].next_cursor is not None:
        pages.append(service.jobs.of_study(study_id, 3, pages[-1].next_cursor))

    assert [expected[:3], expected[3:6], expected[6:]] == [[job.job_id for job in page.items] for page in pages]
    assert expected[:5] == [job.job_id for job in service.jobs.of_study(study_id, 5).items]
    with pytest.raises(InvalidRequest, match="cursor"):
        service.jobs.of_study(study_id, 3, "yesterday_job")


def test_machines_have_the_name_that_people_give_or_that_of_their_facts(service: Service, database: Database) -> None:
    """A name that is given in one study holds for the hardware; it is found by it, and by its CPU."""
    first = study_of(service)
    second = study_of(service, replace(first.key, model="c" * 64), "bert")
    overview = Overview(database)
    service.jobs.put(first.study_id, "job", RUNNING)
    before = overview.study(second.study_id).study
    service.jobs.put(second.study_id, "job", JobReport(hardware_name="Rack 7"))
    after = overview.study(first.study_id).study

    assert (None, "AMD EPYC 7B13, 64 cores, 2 hosts, tcp 25 Gbit/s") == (before.hardware_name, before.machines)
    assert ("Rack 7", before.machines) == (after.hardware_name, after.machines)
    assert ["Rack 7"] == [item.name for item in overview.hardware("rack")]
    assert 1 == len(overview.hardware("7b13"))
    assert [first.study_id] == [item.study_id for item in overview.studies(Wanted(text="epyc")).items]


@pytest.mark.parametrize(
    "facts",
    [
        JobReport(state="won"),  # type: ignore[arg-type]
        JobReport(name=""),
        JobReport(name="a\nb"),
        JobReport(tags=("x" * 201,)),
        JobReport(tags=tuple(map(str, range(21)))),
        JobReport(commit="x" * 101),
        JobReport(verdict=""),
        JobReport(machines=(replace(MACHINE, cores=0),)),
        JobReport(machines=(replace(MACHINE, cpu_model="\x00"),)),
        JobReport(machines=(replace(MACHINE, link_bits_per_s=-1),)),
        JobReport(machines=(MACHINE,) * 65),
    ],
)
def test_facts_that_cannot_be_shown_are_refused(facts: JobReport, service: Service) -> None:
    """Unprintable facts are refused, and none is kept."""
    study_id = study_of(service).study_id

    with pytest.raises(InvalidRequest):
        service.jobs.put(study_id, "job", facts)

    assert () == service.jobs.of_study(study_id, 10).items


def test_a_job_of_no_study_is_not_known(service: Service) -> None:
    """A job has to announce its study first."""
    with pytest.raises(StudyNotFound):
        service.jobs.put("0" * 32, "job", RUNNING)
    with pytest.raises(InvalidRequest):
        service.jobs.put(study_of(service).study_id, "", RUNNING)


@pytest.mark.parametrize(
    "changed",
    [{"state": "won"}, {"tags": "[1]"}, {"tags": "x"}, {"name": "a\nb"}, {"job_id": ""}, {"heard_unix_s": -1.0}],
)
def test_words_of_a_job_that_cannot_be_shown_are_refused(changed: dict[str, object], service: Service) -> None:
    """The line that holds unprintable words is refused, since they would come onto pages."""
    service.jobs.put(study_of(service).study_id, "job-1", JobReport())
    lines = list(service.archive.export())
    number = next(number for number, line in enumerate(lines) if '"type":"job"' in line)
    lines[number] = canonical({**json.loads(lines[number]), **changed})

    with pytest.raises(InvalidRequest, match=f"line {number + 1}"):
        service.archive.take(sealed(lines))
