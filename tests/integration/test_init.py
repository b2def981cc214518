# SPDX-License-Identifier: Apache-2.0
"""Joining the world when something is wrong: every rank hears of it, at once, with the reason."""

import re
import time
from pathlib import Path

import pytest

from ringtune.meeting.bootstrap.ownership import find_owner
from ringtune.world.world import INIT_LIMIT_S
from tests.integration.forked_services import ringtune_words
from tests.integration.jobs import launched, program, ringtune, run_job, started, wait_for_line
from tests.integration.ports import free_port

KEY = "ab" * 32
AT_THE_DEADLINE = {"RINGTUNE_TIMEOUT_S": "4"}


def errors_by_rank(text: str) -> dict[int, tuple[str, float, str]]:
    """Return class, seconds and text of the error that each rank printed."""
    found = re.findall(r"^rank (\d+) got (\w+) after ([0-9.]+) s: (.*)$", text, re.MULTILINE)
    return {int(rank): (name, float(seconds), words) for rank, name, seconds, words in found}


def test_a_malformed_environment_ends_the_launcher_with_code_two() -> None:
    """Wrong settings are found before any rank starts, in one paragraph."""
    finished = run_job(launched(2, "sleeper", "/nowhere"), {"RINGTUNE_FUSION_BYTES": "lots"})

    assert 2 == finished.code, finished.text
    assert "RINGTUNE_FUSION_BYTES='lots' is not allowed; allowed: 0 or 65536 to 268435456" in finished.stderr
    assert 1 == len(finished.stderr.strip().splitlines())


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_malformed_environment_on_one_rank_stops_all(rank: str) -> None:
    """A rank that cannot read its settings tells the others, which do not wait for the deadline."""
    finished = run_job(launched(2, "fails_at_init", rank, "RINGTUNE_CYCLE_MS", "soon"))

    errors = errors_by_rank(finished.stdout)
    assert {0, 1} == set(errors), finished.text
    assert {"ConfigError"} == {name for name, _, _ in errors.values()}
    assert all("RINGTUNE_CYCLE_MS='soon'" in words for _, _, words in errors.values()), finished.text
    assert max(seconds for _, seconds, _ in errors.values()) < INIT_LIMIT_S / 2


def test_different_settings_on_ranks_stop_all() -> None:
    """A rank that sets another value is an error on all ranks, naming variable and both values."""
    finished = run_job(launched(3, "fails_at_init", "2", "RINGTUNE_CYCLE_MS", "5"))

    errors = errors_by_rank(finished.stdout)
    assert {0, 1, 2} == set(errors), finished.text
    for name, _, words in errors.values():
        assert "ConfigError" == name
        assert "rank 2 sets RINGTUNE_CYCLE_MS=5.0 but rank 0 has, by default, 1.0" in words


def test_ranks_without_the_setting_adopt_rank_0s() -> None:
    """A value that is set on rank 0 alone holds for all."""
    finished = run_job(launched(2, "fails_at_init", "0", "RINGTUNE_CYCLE_MS", "5"))

    assert 2 == finished.stdout.count("joined"), finished.text


@pytest.mark.parametrize("path", ["/nonexistent/tune.jsonl", "/"])
def test_a_log_that_cannot_be_written_stops_all_before_training(path: str) -> None:
    """The path is tried at init; the error names variable and path on every rank."""
    finished = run_job(launched(2, "fails_at_init", "0", "AUTOTUNE_LOG", path), {"AUTOTUNE": "1"})

    errors = errors_by_rank(finished.stdout)
    assert {0, 1} == set(errors), finished.text
    assert all(f"AUTOTUNE_LOG='{path}' cannot be written" in words for _, _, words in errors.values())


def explicit(rank: int, world_size: int, name: str, **changes: str) -> dict[str, str]:
    """Return the variables of a rank without a launcher; errors come long before its limit."""
    return {
        "RINGTUNE_RANK": str(rank),
        "RINGTUNE_WORLD_SIZE": str(world_size),
        "RINGTUNE_RENDEZVOUS": f"unix:@{name}",
        "RINGTUNE_JOB_KEY": KEY,
        "RINGTUNE_TIMEOUT_S": "60",
        **changes,
    }


def joining(*announced_in: str) -> list[str]:
    """Return the command of a rank that joins and prints its outcome; before, it announces itself in a given file."""
    return program("fails_at_init", "none", "NONE", "none", *announced_in)


def test_a_rank_with_another_key_is_kept_out(tmp_path: Path) -> None:
    """A rank with another key gets an error at once; the others name both ranks at the deadline."""
    name, announced = f"ringtune-test-{tmp_path.name}", tmp_path / "announced"

    with started(joining(str(announced)), explicit(1, 2, name, RINGTUNE_JOB_KEY="cd" * 32)) as refused:
        wait_for_line(announced)  # it calls already when rank 0's few seconds begin
        finished = run_job(joining(), explicit(0, 2, name, **AT_THE_DEADLINE))
        second = refused.wait()

    assert "ConfigError" == errors_by_rank(second.stdout)[1][0], second.text
    assert "different job keys" in second.stdout
    assert KEY not in second.text + finished.text
    error_name, _, words = errors_by_rank(finished.stdout)[0]
    assert "CollectiveTimeout" == error_name, finished.text
    assert "ranks [1] of 2 did not join" in words
    assert "1 connection refused" in words


def test_a_rank_that_is_started_twice_on_a_host_is_refused_there_and_the_job_goes_on(tmp_path: Path) -> None:
    """The second process learns at once which was first; the first one's meeting is not disturbed."""
    command, name = joining(), f"ringtune-test-{tmp_path.name}"

    with started(command, explicit(1, 2, name)) as first:
        while find_owner(explicit(1, 2, name)) is None:
            time.sleep(0.02)
        second = run_job(command, explicit(1, 2, name))
        finished = [run_job(command, explicit(0, 2, name)), first.wait()]

    error_name, _, words = errors_by_rank(second.stdout)[1]
    assert "ConfigError" == error_name, second.text
    assert f"the place of rank 1 of 2 belongs to process {first.process.pid} " in words
    assert all("joined" in job.stdout for job in finished), finished


def test_two_processes_of_one_rank_that_meet_stop_all() -> None:
    """A rank that is started twice, on hosts of its own, is an error on all that names both processes."""
    command, port = joining(), free_port()
    here, there = ({"RINGTUNE_RENDEZVOUS": f"tcp://{host}:{port}"} for host in ("127.0.0.1", "127.0.0.01"))

    with (
        started(command, explicit(0, 3, "", **here)) as first,
        started(command, explicit(1, 3, "", **here)) as second,
        started(command, explicit(1, 3, "", **there)) as third,
    ):
        finished = [job.wait() for job in (first, second, third)]

    for job in finished:
        ((error_name, _, words),) = errors_by_rank(job.stdout).values()
        assert "ConfigError" == error_name, job.text
        assert "two processes joined as rank 1" in words


def test_different_world_sizes_stop_all(tmp_path: Path) -> None:
    """Ranks that count differently hear both numbers."""
    command, name = joining(), f"ringtune-test-{tmp_path.name}"

    with started(command, explicit(0, 2, name)) as first:
        second = run_job(command, explicit(1, 3, name))
        finished = first.wait()

    for job in (finished, second):
        ((error_name, _, words),) = errors_by_rank(job.stdout).values()
        assert "ConfigError" == error_name, job.text
        assert "rank 1 has world_size 3 but rank 0 has 2" in words


def test_a_missing_rank_is_named_at_the_deadline(tmp_path: Path) -> None:
    """No rank waits for ever for one that was not started."""
    finished = run_job(joining(), explicit(0, 3, f"ringtune-test-{tmp_path.name}", **AT_THE_DEADLINE))

    error_name, _, words = errors_by_rank(finished.stdout)[0]
    assert "CollectiveTimeout" == error_name, finished.text
    assert "ranks [1, 2] of 3" in words


def test_a_rank_without_rank_0_ends_at_the_deadline(tmp_path: Path) -> None:
    """A rank whose rank 0 never comes says where it looked."""
    finished = run_job(joining(), explicit(1, 2, f"ringtune-test-{tmp_path.name}", **AT_THE_DEADLINE))

    error_name, _, words = errors_by_rank(finished.stdout)[1]
    assert "CollectiveTimeout" == error_name, finished.text
    assert f"@ringtune-test-{tmp_path.name}" in words


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "-np", "0", "true"], "-np 0 is not possible"),
        (["run", "-np", "2", "no-such-program"], "was not found"),
        (["run", "-np", "two", "true"], "allowed: an integer"),
        (["run", "true"], "-np"),
        (["run", "-np", "2"], "no command was given"),
        (["review", "/nonexistent.jsonl"], "cannot be read"),
    ],
)
def test_wrong_usage_is_code_two_and_one_paragraph(arguments: list[str], word: str) -> None:
    """The command line names the fault, without a traceback."""
    finished = run_job(ringtune_words(*arguments))

    assert 2 == finished.code, finished.text
    assert word in finished.stderr, finished.text
    assert "Traceback" not in finished.stderr
    assert 1 == len(finished.stderr.strip().splitlines())


@pytest.mark.parametrize(("command", "code"), [("kill -TERM $$", 143), ("read x || exit 5", 5)])
def test_the_launchers_code_is_the_ranks(command: str, code: int) -> None:
    """Codes and signals are passed on; standard input is empty."""
    finished = run_job(ringtune("run", "-np", "2", "sh", "-c", command))

    assert code == finished.code, finished.text
    assert "the first to fail" in finished.stderr


def test_the_job_key_is_on_no_command_line() -> None:
    """The key is not in the process listing."""
    script = 'test -n "$RINGTUNE_JOB_KEY" && ! cat /proc/*/cmdline | tr "\\0" "\\n" | grep -q "^$RINGTUNE_JOB_KEY"'

    finished = run_job(ringtune("run", "-np", "1", "sh", "-c", script))

    assert 0 == finished.code, finished.text
