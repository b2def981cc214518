# SPDX-License-Identifier: Apache-2.0
"""Metrics of real jobs, read while they train."""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.jobs import REPOSITORY, Finished, Job, launched, ranks, run_job, started
from tests.integration.ports import free_ports
from tests.integration.quick_tuning import QUICK
from tests.integration.scrapes import Scrape, promtool, scrape_until

NO_THREAD_FOR_METRICS = """
import threading

start = threading.Thread.start


def limited(thread):
    if thread.name == "ringtune-metrics":
        raise RuntimeError("no thread left")
    start(thread)


threading.Thread.start = limited
"""


@contextmanager
def training(folder: Path, environ: Mapping[str, str], *arguments: str) -> Iterator[tuple[Job, list[str]]]:
    """Run a job of two ranks that trains while the block runs; yield it and its URLs by rank."""
    stop = folder / "stop"
    port = free_ports(2)
    changes = {"RINGTUNE_METRICS_PORT": str(port), **environ}
    with started(launched(2, "watched", str(stop), *arguments), changes) as job:
        try:
            yield job, [f"http://127.0.0.1:{port + rank}/metrics" for rank in range(2)]
        except AssertionError as error:
            stop.touch()
            raise AssertionError(f"{error}\n{job.wait().text}") from error
        finally:
            stop.touch()


def has_steps(found: Scrape) -> bool:
    """Return whether the job has trained."""
    return (found.value("ringtune_engine_steps_total") or 0) > 20


def test_every_rank_shows_its_engine(tmp_path: Path) -> None:
    """One job name for both, a rank and a port for each; counters grow; no tuner where none was asked for."""
    with training(tmp_path, {"AUTOTUNE_MODEL": "digits"}) as (job, urls):
        first = [scrape_until(url, has_steps) for url in urls]
        second = [scrape_until(url, lambda found: has_more_steps(found, first[0])) for url in urls]
        (tmp_path / "stop").touch()
        finished = job.wait()

    assert 0 == finished.code, finished.text
    assert ["0", "1"] == labels_of(first, "rank")
    assert ["digits", "digits"] == labels_of(first, "model")
    assert 1 == len({*labels_of(first, "training_job"), *labels_of(second, "training_job")})
    assert [2.0, 2.0] == [found.value("ringtune_job_world_size") for found in first]
    assert [[], []] == [tuner_metrics(found) for found in first]
    for found in second:
        check_figures(found)


def labels_of(scrapes: Sequence[Scrape], label: str) -> list[str]:
    """Return each rank's labels."""
    return [found.label("ringtune_job_info", label) for found in scrapes]


def tuner_metrics(found: Scrape) -> list[str]:
    """Return the names of the tuner's metrics."""
    return [name for name in found.families if name.startswith("ringtune_tuner")]


def has_more_steps(found: Scrape, before: Scrape) -> bool:
    """Return whether the job went on."""
    return (found.value("ringtune_engine_steps_total") or 0) > (before.value("ringtune_engine_steps_total") or 0)


def check_figures(found: Scrape) -> None:
    """Require that an engine's figures agree with each other and with the program's work."""
    steps, tensors = (found.value(f"ringtune_engine_{name}_total") or 0 for name in ("steps", "tensors"))
    assert tensors >= 6 * steps
    assert (found.value("ringtune_engine_reduced_bytes_total") or 0) >= 6 * steps * 2000 * 8
    assert (found.value("ringtune_engine_responses_total") or 0) <= tensors
    assert (found.value("ringtune_engine_requests_total", kind="cached") or 0) > 5 * steps
    assert (found.value("ringtune_engine_allreduces_total") or 0) > 0
    assert (found.value("ringtune_engine_seconds_total", lap="elsewhere") or 0) > 0
    assert 0.001 == found.value("ringtune_config_cycle_seconds")


def test_rank_0_shows_the_tuner(tmp_path: Path) -> None:
    """Rank 0 shows each phase and the log's verdict; the config in force is one; promtool finds no fault."""
    with training(tmp_path, QUICK) as (job, urls):
        found = scrape_until(urls[0], is_decided)
        other = scrape_until(urls[1], lambda other: is_same_epoch(other, found))
        (tmp_path / "stop").touch()
        finished = job.wait()

    assert 0 == finished.code, finished.text
    verdict = found.label("ringtune_tuner_verdict_info", "verdict")
    assert verdict in " ".join(finished.stderr.split()), finished.text  # a long one is printed in several lines
    adopted = found.value("ringtune_tuner_adopted")
    assert float(verdict.startswith("adopted")) == adopted
    assert adopted == found.value("ringtune_tuner_runs_total", decision="adopted")
    assert 1.0 == found.value("ringtune_tuner_phase", phase="watch") == found.value("ringtune_tuner_phase")
    assert (found.value("ringtune_tuner_windows_total", phase="baseline") or 0) >= 3
    assert (found.value("ringtune_tuner_baseline_score_bytes_per_second") or 0) > 0
    assert (found.value("ringtune_tuner_step_seconds") or 0) > 0
    assert found.value("ringtune_config_fusion_bytes") == other.value("ringtune_config_fusion_bytes")
    assert [] == tuner_metrics(other)
    assert ["", ""] == [promtool("check", "metrics", text=shown.text) for shown in (found, other)]


def is_decided(found: Scrape) -> bool:
    """Return whether a run is over and its decision is watched."""
    is_over = (found.value("ringtune_tuner_runs_total") or 0) > 0
    return is_over and found.value("ringtune_tuner_phase", phase="watch") == 1.0


def is_same_epoch(one: Scrape, other: Scrape) -> bool:
    """Return whether two ranks have switched as often."""
    return one.value("ringtune_config_epoch") == other.value("ringtune_config_epoch")


def test_a_forked_child_holds_no_port(tmp_path: Path) -> None:
    """A data loader's worker has no socket of the parent's, and the parent serves on."""
    with training(tmp_path, {}, "forking") as (job, urls):
        found = scrape_until(urls[0], has_steps)
        again = scrape_until(urls[0], lambda again: has_more_steps(again, found))
        (tmp_path / "stop").touch()
        finished = job.wait()

    assert 0 == finished.code, finished.text
    assert "the child holds no socket" in finished.stdout, finished.text
    assert has_steps(again)


def test_a_job_that_joins_again_has_its_ports_again() -> None:
    """The end of the first world gives them back, without a warning."""
    finished = run_job(
        launched(2, "rejoin"), {"RINGTUNE_METRICS_PORT": str(free_ports(2)), "RINGTUNE_LOG_LEVEL": "info"}
    )

    assert 0 == finished.code, finished.text
    assert finished.stderr.count("metrics at http://127.0.0.1:") >= 4, finished.text
    assert "warning" not in finished.stderr, finished.text


def trained_beside(tmp_path: Path, value: str) -> Finished:
    """Run a job to its end with a value of the variable."""
    (tmp_path / "stop").touch()
    return run_job(ranks(2, "watched", str(tmp_path / "stop")), {"RINGTUNE_METRICS_PORT": value})


def test_a_port_that_is_taken_costs_one_warning(tmp_path: Path) -> None:
    """The job trains; the rank whose port is taken names it, the reason and the remedy; the other has its own."""
    port = free_ports(2)
    with socket.create_server(("127.0.0.1", port)):
        finished = trained_beside(tmp_path, str(port))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("exact steps"), finished.text
    assert 1 == finished.stderr.count("warning"), finished.text
    assert f"rank 0: no metrics on 127.0.0.1:{port}: Address already in use; training goes on" in finished.stderr
    assert f"RINGTUNE_METRICS_PORT=127.0.0.1:{port}: choose" in finished.stderr


@pytest.mark.parametrize(
    ("value", "reason"),
    [("65535", "no metrics on 127.0.0.1:65536: ports end at 65535"), ("203.0.113.7:9400", "Cannot assign")],
)
def test_an_address_that_cannot_be_costs_one_warning(tmp_path: Path, value: str, reason: str) -> None:
    """A port that does not exist on the second rank; an address of another host, on both."""
    finished = trained_beside(tmp_path, value)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("exact steps"), finished.text
    assert reason in finished.stderr, finished.text
    assert finished.stderr.count(reason) == finished.stderr.count("warning"), finished.text


@pytest.mark.parametrize(
    ("module", "text", "reason"),
    [
        ("prometheus_client", "raise ImportError('too old')", "ImportError('too old')"),
        ("sitecustomize", NO_THREAD_FOR_METRICS, "RuntimeError('no thread left')"),
    ],
)
def test_what_fails_otherwise_costs_one_warning(tmp_path: Path, module: str, text: str, reason: str) -> None:
    """A library that does not fit, a limit of threads: the job trains."""
    (tmp_path / f"{module}.py").write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "stop").touch()
    changes = {"RINGTUNE_METRICS_PORT": str(free_ports(2)), "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"}

    finished = run_job(launched(2, "watched", str(tmp_path / "stop")), changes)  # new interpreters, for the modules

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("exact steps"), finished.text
    assert 2 == finished.stderr.count(f"no metrics: {reason}; training goes on without"), finished.text
    assert 2 == finished.stderr.count("warning"), finished.text


def test_a_malformed_value_stops_the_job(tmp_path: Path) -> None:
    """The error has the variable's name, the value, and the allowed ones."""
    finished = trained_beside(tmp_path, "http")

    assert 0 != finished.code, finished.text
    assert "RINGTUNE_METRICS_PORT='http' is not allowed; allowed: a port from 1 to 65535" in finished.stderr
