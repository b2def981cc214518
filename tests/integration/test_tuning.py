# SPDX-License-Identifier: Apache-2.0
"""Tuning a real job: config switches on all ranks, a log that can be read, and no error that fails training."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.jobs import Finished, launched, program, ranks, ringtune, run_job
from tests.integration.quick_tuning import QUICK, UNTIL_DECIDED


def unshared(script: str) -> list[str]:
    """Return a command that runs a shell script with mounts of its own, or skip where that is not permitted."""
    unshare = shutil.which("unshare")
    command = [unshare or "unshare", "--mount", "sh", "-ec"]
    probe = "mount -t tmpfs -o size=1m none /dev/shm"
    if unshare is None or subprocess.run([*command, probe], capture_output=True, check=False).returncode != 0:
        pytest.skip("NOT RUN: mount namespaces with tmpfs are not permitted here (needs root)")
    return [*command, script]


def one_line(text: str) -> str:
    """Return a text with single spaces between its words: a verdict is one line in the log, and several on stderr."""
    return " ".join(text.split())


def epochs_of(finished: Finished) -> list[str]:
    """Return the config epoch that each rank ended with."""
    return re.findall(r"exact steps, epoch (\d+)", finished.stdout)


def test_a_job_is_tuned_to_the_end(tmp_path: Path) -> None:
    """All phases are passed, and are in the timeline; sums stay exact; ranks end in one epoch; log and review agree."""
    log, trace = tmp_path / "tune.jsonl", tmp_path / "trace.json"
    environ = {**QUICK, "AUTOTUNE_LOG": str(log), "RINGTUNE_TIMELINE": str(trace)}

    finished = run_job(ranks(2, "tuned", "6", UNTIL_DECIDED, "marked"), environ)
    review = run_job(ringtune("review", "--json", str(log)))

    assert 0 == finished.code, finished.text
    epochs = epochs_of(finished)
    assert 2 == len(epochs)
    assert 1 == len(set(epochs))
    assert int(epochs[0]) >= 3
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert {"run", "sample", "suggestion", "adoption", "result"} == {record["type"] for record in records}
    assert re.search(r"adopted|keeping default", finished.stderr), finished.text
    assert str(log) in finished.stderr
    assert 0 == review.code, review.text
    assert json.loads(review.stdout)[0]["runs"][0]["is_complete"]
    text = trace.read_text(encoding="utf-8")
    names = re.findall(r'"name": ?"(tuner [a-z]+)"', text)
    assert ["tuner warmup", "tuner baseline", "tuner search"] == list(dict.fromkeys(names))[:3]
    assert "tuner verdict" == names[-1]
    assert "ALLREDUCE" in text


SECONDS_DEADLINE_S = 180.0
"""Deadline in seconds of a job that goes on until its tuner has decided, within twelve seconds of its own clock."""


def test_a_job_is_decided_within_the_steps_that_it_is_given(tmp_path: Path) -> None:
    """Steps of the job in place of a number of samples; the log says how many."""
    log = tmp_path / "tune.jsonl"
    environ = {"AUTOTUNE": "1", "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOG": str(log), "AUTOTUNE_MAX_STEPS": "1500"}

    finished = run_job(ranks(2, "tuned", "6", UNTIL_DECIDED, "marked"), environ)

    assert 0 == finished.code, finished.text
    assert re.search(r"adopted|keeping default", finished.stderr), finished.text
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    budget = records[0]["steps_budget"]
    assert (None, 1500, None) == (budget["max_samples"], budget["max_steps"], budget["max_seconds"])
    assert {"search", "result"} <= {record.get("phase", record["type"]) for record in records}
    assert sum(record["steps"] for record in records if record["type"] == "sample") <= 1500


@pytest.mark.timeout(SECONDS_DEADLINE_S + 60)
def test_a_job_is_decided_within_the_seconds_that_it_is_given(tmp_path: Path) -> None:
    """The job trains until the tuner has decided: without a decision it would go on until the deadline."""
    log = tmp_path / "tune.jsonl"
    environ = {"AUTOTUNE": "1", "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOG": str(log), "AUTOTUNE_MAX_SECONDS": "12"}

    finished = run_job(ranks(2, "until_tuned", "torch"), environ, deadline_s=SECONDS_DEADLINE_S)

    assert 0 == finished.code, finished.text
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    budget = records[0]["steps_budget"]
    assert (None, None, 12.0) == (budget["max_samples"], budget["max_steps"], budget["max_seconds"])
    assert {"search", "result"} <= {record.get("phase", record["type"]) for record in records}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("front_end", ["torch", "arrays"])
def test_every_rank_leaves_the_loop_after_the_same_step(front_end: str, count: int) -> None:
    """`while not tuning_finished()` ends everywhere at once, however often each rank asks."""
    finished = run_job(ranks(count, "until_tuned", front_end), QUICK)

    assert 0 == finished.code, finished.text
    left = re.findall(r"left after (\d+) steps, finished True", finished.stdout)
    assert count == len(left), finished.text
    assert 1 == len(set(left)), finished.text
    assert int(left[0]) > 20
    assert count == finished.stdout.count("without a world True")


def test_without_the_tuner_there_is_nothing_to_wait_for() -> None:
    """The loop is never entered."""
    finished = run_job(ranks(2, "until_tuned", "arrays"), {})

    assert ["0", "0"] == re.findall(r"left after (\d+) steps, finished True", finished.stdout), finished.text


def test_a_second_job_begins_with_what_the_first_one_learned(tmp_path: Path) -> None:
    """Both are kept in one file, which the review reads as any log."""
    cache = tmp_path / "cache" / "studies.jsonl"
    environ = {**QUICK, "AUTOTUNE_CACHE": str(cache), "RINGTUNE_LOG_LEVEL": "info"}

    first, second = (run_job(ranks(2, "tuned", "6", UNTIL_DECIDED, "marked"), environ) for _ in range(2))
    review = run_job(ringtune("review", "--json", str(cache)))

    assert (0, 0, 0) == (first.code, second.code, review.code), first.text + second.text + review.text
    assert "earlier runs" not in first.stderr
    begins = rf"the search begins with the samples of an? (un)?finished run \({re.escape(str(cache))}\)"
    assert re.search(begins, second.stderr), second.text
    assert 2 == len(json.loads(review.stdout)[0]["runs"])


def test_files_that_cannot_be_used_cost_a_warning_each(tmp_path: Path) -> None:
    """A folder in the place of the cache, and a log that takes no byte: the job is tuned, and the paths are named."""
    environ = {**QUICK, "AUTOTUNE_CACHE": str(tmp_path), "AUTOTUNE_LOG": "/dev/full"}

    finished = run_job(ranks(2, "tuned", "6", UNTIL_DECIDED, "marked"), environ)

    assert 0 == finished.code, finished.text
    assert re.search(r"adopted|keeping default", finished.stderr), finished.text
    assert f"cannot be read from {tmp_path}" in finished.stderr
    assert f"cannot be kept in {tmp_path}" in finished.stderr
    assert 1 == finished.stderr.count("misses records"), finished.text


def test_with_every_knob_fixed_the_tuner_has_nothing_to_do() -> None:
    """No knob is left to tune, and the job says so and trains on."""
    fixed = {"FUSION_BYTES": "1MiB", "CYCLE_MS": "1", "RESPONSE_CACHE": "1", "CHUNK_BYTES": "auto"}
    environ = {"AUTOTUNE": "1", **{f"RINGTUNE_{knob}": value for knob, value in fixed.items()}}

    finished = run_job(ranks(2, "tuned", "2", "20", "marked"), environ)

    assert 0 == finished.code, finished.text
    assert "nothing to tune" in finished.stderr, finished.text
    assert 1 == len(set(epochs_of(finished)))


def test_without_a_marked_step_the_tuner_stays_off_and_says_so_once() -> None:
    """Allreduces alone are no steps: after some rounds of the same tensors one warning names the remedy."""
    finished = run_job(ranks(2, "tuned", "6", "4", "unmarked"), QUICK)

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("no step was marked"), finished.text
    assert "mark_step()" in finished.stderr
    assert {"0"} == set(epochs_of(finished))


def test_a_disk_that_fills_up_costs_one_warning(tmp_path: Path) -> None:
    """When the log can no longer be written, tuning goes on to its verdict."""
    command = " ".join(launched(2, "tuned", "6", UNTIL_DECIDED, "marked"))
    script = f"mount -t tmpfs -o size=8k none {tmp_path} && head -c 4000 /dev/zero > {tmp_path}/other && exec {command}"

    finished = run_job(unshared(script), {**QUICK, "AUTOTUNE_LOG": str(tmp_path / "tune.jsonl")})

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("misses records"), finished.text
    assert re.search(r"adopted|keeping default", finished.stderr), finished.text


def test_one_bucket_of_ddp_leaves_nothing_to_tune_but_the_other_knobs(tmp_path: Path) -> None:
    """fusion_bytes cannot act on one bucket; with the other knobs fixed the verdict names the remedy."""
    fixed = {"RINGTUNE_CYCLE_MS": "1", "RINGTUNE_RESPONSE_CACHE": "1", "RINGTUNE_CHUNK_BYTES": "64KiB"}
    job = ranks(2, "torch_ddp_tuned", str(tmp_path / "store"))

    finished = run_job(job, {"AUTOTUNE": "1", **fixed})

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("over, True"), finished.text
    assert "keeping default: nothing to tune under DDP buckets of 0.0159 MiB" in finished.stderr, finished.text
    assert "a smaller bucket_cap_mb makes more buckets" in finished.stderr, finished.text


FULL = "{ head -c 9m /dev/zero > /dev/shm/other || true; }"  # fills 8 MiB


@pytest.mark.parametrize(
    "prepared",
    ["mount -t tmpfs -o size=1m none /dev/shm", f"mount -t tmpfs -o size=8m none /dev/shm && {FULL}"],
    ids=["1 MiB", "full"],
)
def test_a_small_dev_shm_is_enough(prepared: str) -> None:
    """Containers give a few MiB of /dev/shm: the engine needs none of it, for a tensor of 80 MiB either."""
    command = " ".join(launched(4, "large_tensor"))

    finished = run_job(unshared(f"{prepared} && exec {command}"))

    assert 0 == finished.code, finished.text
    assert 4 == finished.stdout.count("all right"), finished.text


@pytest.mark.parametrize(
    ("budget", "words", "work"),
    [
        (
            {"AUTOTUNE_MAX_STEPS": "40"},
            r"AUTOTUNE_MAX_STEPS=40 (was spent first|were used; the rest is kept for a paired test)",
            ("1", "60"),
        ),
        ({"AUTOTUNE_STEPS_PER_SAMPLE": "5000"}, "unfinished: the job ended in the ", ("2", "2")),
    ],
    ids=["the budget ends it", "the job ends it"],
)
def test_a_job_that_cannot_tell_says_how_far_it_was(
    tmp_path: Path, budget: dict[str, str], words: str, work: tuple[str, str]
) -> None:
    """The job does not wait; its last line, the log's and the review's verdict are one: the best so far, the need."""
    log = tmp_path / "tune.jsonl"
    environ = {"AUTOTUNE": "1", "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOG": str(log), **budget}

    finished = run_job(program("tuned", *work, "marked"), environ, deadline_s=90)
    review = run_job(ringtune("review", "--json", str(log)))

    assert 0 == finished.code, finished.text
    (found,) = re.findall(r"ringtune autotune: ((?:unfinished|keeping default): .*(?:\n  .*)*)", finished.stderr)
    verdict = one_line(found)
    assert re.search(words, verdict), verdict
    assert re.search(r"[Bb]est so far|was measured yet", verdict), verdict
    assert re.search(r"A verdict (would|on|takes)", verdict), verdict
    (run,) = json.loads(review.stdout)[0]["runs"]
    assert verdict.startswith(f"{run['verdict'].rstrip('.')}. "), run["verdict"]
    if "unfinished" in words:
        last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        assert "end" == last["type"]
        assert verdict.startswith(f"{one_line(last['verdict'])}."), finished.text
