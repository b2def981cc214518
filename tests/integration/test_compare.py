# SPDX-License-Identifier: Apache-2.0
"""`ringtune compare` for real: scripts of each kind under both arms, in jobs of their own. No speed is asserted."""

import io
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ringtune import cli
from ringtune.launch.hosts import parse_hosts
from ringtune.measuring.compare.comparison import run_comparison
from ringtune.measuring.compare.launching import ComparisonError, Run, Runs
from ringtune.measuring.compare.meeting import meeting_place
from ringtune.measuring.compare.messages import ARMS, Arm
from ringtune.measuring.compare.request import CompareRequest, RankProgram, arm_environment
from tests.integration.jobs import PROGRAMS, clean_environment, program, ringtune, run_job, started, wait_for_line
from tests.integration.remote_shells import ONE, TWO, write_rsh

RANKS = 2
WARMUP_STEPS = 2
SCRIPT_STEPS = 9
FACTS_OF_GROUPS = ("written_for", "backend", "has_engine_worked")
GRADIENTS: dict[str, Any] = {
    "name": "small",
    "dtype": "float32",
    "tensors": [{"name": f"layer.{n}", "shape": [1 + n % 3, 1 + 1009 * (n % 5)]} for n in range(12)],
}
RunArm = Callable[..., Run]


@pytest.fixture
def run_arm(tmp_path: Path) -> RunArm:
    """Return the function that runs a program in an arm, with its findings in the arm's folder; hosts get a value."""

    def run(
        arm: Arm,
        name: str,
        *arguments: str,
        steps: int = 1000,
        hosts: str | None = None,
        serves_groups: bool = False,
        **reach: str,
    ) -> Run:
        folder = tmp_path / arm
        folder.mkdir(exist_ok=True)
        words = (str(PROGRAMS / f"{name}.py"), str(folder), *arguments)
        options = {f"--{name}": value for name, value in reach.items()}
        sent = {"SET_BEFORE_TORCH": "sent"} if hosts else {}
        request = CompareRequest(
            RANKS,
            RankProgram.parse(words),
            warmup_steps=WARMUP_STEPS,
            hosts=hosts,
            reach=options,
            sent=sent,
            serves_groups=serves_groups,
        )
        environ = arm_environment(clean_environment({}, "0"))
        place = meeting_place(None if hosts is None else parse_hosts(hosts), RANKS, options)
        return Runs(request, environ, place).run(arm, steps, lambda _: None)

    return run


def findings(folder: Path) -> list[Any]:
    """Return each rank's findings."""
    return [json.loads((folder / f"rank.{rank}").read_text(encoding="utf-8")) for rank in range(RANKS)]


def test_a_script_for_ddp_trains_alike_in_both_arms(tmp_path: Path, run_arm: RunArm) -> None:
    """Same weights, on all ranks; only in the engine's arm does it reduce. Rank and arguments are as under torchrun."""
    runs = {arm: run_arm(arm, "compared_ddp", str(SCRIPT_STEPS), "plain") for arm in ARMS}

    left = {arm: findings(tmp_path / arm) for arm in ARMS}
    expect_same_weights([*left["ddp"], *left["ringtune"]])
    for arm, run in runs.items():
        assert (SCRIPT_STEPS - WARMUP_STEPS, True) == (run.steps, run.did_script_end)
        assert ("ddp", "gloo", 4) == tuple(run.facts[name] for name in ("written_for", "backend", "gradients"))
        for rank, found in enumerate(left[arm]):
            assert [rank, RANKS, rank] == found["place"]
            assert "compared_ddp.py" == found["main"]
            assert [str(tmp_path / arm), str(SCRIPT_STEPS), "plain"] == found["arguments"]
            assert "nothing" == found["set_before_torch"], "the script imports torch first"
    assert 0 == runs["ddp"].facts["engine_bytes"]
    assert runs["ringtune"].facts["engine_bytes"] >= SCRIPT_STEPS * runs["ringtune"].facts["gradient_bytes"]


@pytest.mark.parametrize("mode", ["plain", "by_hand", "foreign_hook"])
def test_a_script_trains_alike_on_gloo_and_in_its_place(tmp_path: Path, run_arm: RunArm, mode: str) -> None:
    """Weights are the same where the script's collectives and hooks are Gloo's, and where they are ringtune's."""
    runs = {arm: run_arm(arm, "compared_ddp", str(SCRIPT_STEPS), mode, serves_groups=True) for arm in ARMS}

    expect_same_weights([found for arm in ARMS for found in findings(tmp_path / arm)])
    found = {arm: tuple(run.facts[name] for name in FACTS_OF_GROUPS) for arm, run in runs.items()}
    assert ("process_groups", "gloo", False) == found["ddp"]
    assert ("process_groups", "ringtune", True) == found["ringtune"]


def test_the_way_follows_from_the_script(tmp_path: Path) -> None:
    """A script with collectives of its own is compared by its process groups, without an option; the report says so."""
    words = ["--steps", "4", "--json", str(PROGRAMS / "compared_ddp.py"), str(tmp_path), "1000", "by_hand"]

    finished = run_job(compared(*words), {"XDG_CACHE_HOME": str(tmp_path)})

    assert 0 == finished.code, finished.text
    written = json.loads(finished.stdout)
    assert "process_groups" == written["script"]["written_for"]
    assert "in Gloo's place" in written["arms"]
    assert "pair 2 of 2, Gloo:" in finished.stderr


def expect_same_weights(found: list[Any]) -> None:
    """Expect that all ranks ended with the same weights."""
    for other in found[1:]:
        assert found[0]["weights"] == pytest.approx(other["weights"], abs=1e-4)


def test_a_run_ends_after_its_steps(tmp_path: Path, run_arm: RunArm) -> None:
    """The script is left as by sys.exit(): its `finally` has run on every rank, and no code after the loop."""
    run = run_arm("ringtune", "compared_ddp", "1000000", "plain", steps=4)

    assert (4, False) == (run.steps, run.did_script_end)
    assert [[0, 2, 0], [1, 2, 1]] == [found["place"] for found in findings(tmp_path / "ringtune")]


@pytest.mark.long
def test_a_script_with_the_hook_loses_it_under_ddp(tmp_path: Path, run_arm: RunArm) -> None:
    """A script written for ringtune is compared with DDP alone."""
    runs = {arm: run_arm(arm, "compared_ddp", str(SCRIPT_STEPS), "hook") for arm in ARMS}

    expect_same_weights([found for arm in ARMS for found in findings(tmp_path / arm)])
    assert {"ringtune_hook"} == {run.facts["written_for"] for run in runs.values()}
    assert 0 == runs["ddp"].facts["engine_bytes"] < runs["ringtune"].facts["engine_bytes"]


def test_a_script_with_horovods_names_trains_alike_in_both_arms(tmp_path: Path, run_arm: RunArm) -> None:
    """Both arms train alike with every option that DDP has too; under DDP the engine reduces the metric alone."""
    runs = {arm: run_arm(arm, "compared_horovod", str(SCRIPT_STEPS)) for arm in ARMS}

    left = {arm: findings(tmp_path / arm) for arm in ARMS}
    for kind, weights in left["ringtune"][0]["weights"].items():
        for found in (*left["ddp"], *left["ringtune"]):
            assert weights == pytest.approx(found["weights"][kind], abs=0.01), kind
    assert {0.5} == {found["metric"] for arm in ARMS for found in left[arm]}
    assert {("ringtune_optimizer", SCRIPT_STEPS - WARMUP_STEPS)} == {
        (run.facts["written_for"], run.steps) for run in runs.values()
    }
    assert "gloo" == runs["ddp"].facts["backend"]
    assert 100 > left["ddp"][0]["bytes"]
    assert left["ringtune"][0]["bytes"] > SCRIPT_STEPS * 4 * 200


def test_gradients_of_a_file_are_compared(tmp_path: Path) -> None:
    """The whole command: pairs in alternating order, JSON, exit code 0, and doctor shows the result of steady runs."""
    file = tmp_path / "small.json"
    file.write_text(json.dumps(GRADIENTS), encoding="utf-8")
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "AUTOTUNE": "1"}
    options = ["-np", "2", "--gradients", str(file), "--pairs", "2", "--steps", "20", "--json"]

    finished = run_job(ringtune("compare", *options), environ)
    shown = run_job(ringtune("doctor"), environ)

    assert 0 == finished.code, finished.text
    written = json.loads(finished.stdout)
    assert [20] * 4 == [pair[arm]["steps"] for pair in written["pairs"] for arm in ARMS]
    assert written["ci_low"] <= written["ratio"] <= written["ci_high"]
    assert 0.9 == pytest.approx(written["ci_level"])
    assert (12, ["AUTOTUNE"]) == (written["script"]["gradients"], written["not_in_arms"])
    order = re.findall(r"(rehearsal|pair \d of 2), (DDP|ringtune):", finished.stderr)
    assert ["DDP", "ringtune", "DDP", "ringtune", "ringtune", "DDP"] == [arm for _, arm in order], finished.stderr
    result = f"gradients of small.json  ringtune / DDP {written['ratio']:.2f} (90% interval"
    assert written["is_steady"] == (result in re.sub(" {2,}", "  ", shown.stdout)), shown.text


def test_ranks_on_several_hosts_are_compared(tmp_path: Path, run_arm: RunArm) -> None:
    """Torch's store is on rank 0's host, the records arrive through the launcher, and variables reach both hosts."""
    hosts = f"{ONE},{TWO}"
    run = run_arm("ddp", "compared_ddp", str(SCRIPT_STEPS), "plain", hosts=hosts, rsh=write_rsh(tmp_path))

    assert SCRIPT_STEPS - WARMUP_STEPS == run.steps
    found = findings(tmp_path / "ddp")
    assert [([0, 2, 0], "sent"), ([1, 2, 0], "sent")] == [(rank["place"], rank["set_before_torch"]) for rank in found]


def test_a_script_that_cannot_run_both_ways_is_told_why(run_arm: RunArm) -> None:
    """The error is a sentence with the remedy; the job is ended."""
    with pytest.raises(ComparisonError, match=r"cannot be run both ways.*by Adasum, which DDP does not have"):
        run_arm("ddp", "compared_horovod", "adasum")


@pytest.mark.parametrize(
    ("mode", "reason"), [("half", "wraps a model over 1 of the 2 ranks"), ("foreign_hook", "fp16_compress_hook")]
)
def test_the_engine_takes_over_no_buckets_that_are_not_ddps_own(run_arm: RunArm, mode: str, reason: str) -> None:
    """Models over a part of the ranks and other hooks are named; the arm that would serve the buckets refuses them."""
    without = run_arm("ddp", "compared_ddp", str(SCRIPT_STEPS), mode)

    assert "process_groups" == without.facts["written_for"]
    assert reason in without.facts["own_groups"]
    with pytest.raises(ComparisonError, match=reason):
        run_arm("ringtune", "compared_ddp", str(SCRIPT_STEPS), mode)


def test_a_script_without_a_process_group_is_told_what_to_do(tmp_path: Path) -> None:
    """Ranks that train each for itself cannot be compared."""
    script = tmp_path / "alone.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(1, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "model(torch.ones(1)).backward()\n"
        "optimizer.step()\n",
        encoding="utf-8",
    )

    finished = run_job(compared(str(script)))

    assert 1 == finished.code, finished.text
    assert "there is no process group of torch's in which Gloo serves the CPU" in finished.stderr


def test_a_script_of_too_few_steps_is_told_so(run_arm: RunArm) -> None:
    """The report names the wanted number of steps, and shows the script's output."""
    with pytest.raises(ComparisonError, match="before 3 steps of a torch optimizer") as refused:
        run_arm("ddp", "compared_ddp", str(WARMUP_STEPS), "plain")

    assert "trained to the end" in str(refused.value)


def test_one_step_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single step after the warm-up is no sample; no pair is begun."""
    program = RankProgram.parse((str(PROGRAMS / "compared_ddp.py"),))
    request = CompareRequest(RANKS, program, warmup_steps=WARMUP_STEPS)
    monkeypatch.setattr(Runs, "run", lambda _runs, arm, _steps, _progress: Run(arm, 1, 1.0, did_script_end=True))

    with pytest.raises(ComparisonError, match="makes one step after 2 of warm-up"):
        run_comparison(request, {}, meeting_place(None, RANKS, {}), Console(file=io.StringIO()))


def compared(*words: str) -> list[str]:
    """Return the command line that compares a script."""
    return ringtune("compare", "-np", "2", "--pairs", "2", "--warmup-steps", "2", *words)


def test_the_error_of_the_rank_that_failed_first_is_shown(tmp_path: Path) -> None:
    """A traceback of the first failing rank is not hidden by the others' reports of its end."""
    script = tmp_path / "broken.py"
    script.write_text(
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    raise ValueError('my bug')\n"
        "for _ in range(600):\n"
        "    print('complaint of the other rank', file=sys.stderr, flush=True)\n"
        "time.sleep(600)\n",
        encoding="utf-8",
    )

    finished = run_job(compared(*program("compared_ddp")[:1], str(script), "--lr", "1", "--pairs=4"))

    assert (1, "") == (finished.code, finished.stdout), finished.text
    assert "the script failed under PyTorch alone (exit code 1)" in finished.stderr
    assert "--pairs=4 stands behind the script and went to that; put it before the script if" in finished.stderr
    assert "The last lines of rank 1, the first to fail:" in finished.stderr
    assert "ValueError: my bug" in finished.stderr
    assert "complaint of the other rank" not in finished.stderr


def test_an_arm_that_dies_is_named(run_arm: RunArm) -> None:
    """The error has the arm, the exit code and the last lines; no process is left of the run."""
    with pytest.raises(ComparisonError, match=r"the script failed under ringtune \(exit code 137\)") as died:
        run_arm("ringtune", "compared_horovod", "dies")

    assert "was killed by SIGKILL" in str(died.value)


def test_a_script_without_training_shows_its_own_words(tmp_path: Path) -> None:
    """A script that needs no torch and steps no optimizer is an error with its output; exit code 1."""
    script = tmp_path / "idle.py"
    script.write_text("print('no training here')\n", encoding="utf-8")

    finished = run_job(compared(str(script)))

    assert 1 == finished.code, finished.text
    assert "steps of a torch optimizer" in finished.stderr
    assert "no training here" in finished.stderr


def test_a_run_without_a_step_is_ended(tmp_path: Path) -> None:
    """The error names the option that gives more time; no process of the job is left."""
    script = tmp_path / "waits.py"
    script.write_text("import time\nprint('loading', flush=True)\ntime.sleep(600)\n", encoding="utf-8")

    finished = run_job(compared("--timeout", "5", str(script)))

    assert 1 == finished.code, finished.text
    assert "no optimizer step under PyTorch alone within 5 s; raise --timeout" in finished.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -9)])
def test_a_signal_ends_the_run_in_progress(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """No rank goes on, even where the comparison could not end it any more."""
    script = tmp_path / "waits.py"
    script.write_text(
        f"import time\nopen({str(tmp_path / 'begun')!r}, 'w').write('begun\\n')\ntime.sleep(600)\n", encoding="utf-8"
    )
    with started(compared(str(script))) as job:
        wait_for_line(tmp_path / "begun")
        job.process.send_signal(number)
        finished = job.wait()

    assert code == finished.code, finished.text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-np", "2"], "no script was given"),
        (["-np", "1", "SCRIPT"], "one rank reduces nothing"),
        (["-np", "2", "missing.py"], "there is no script 'missing.py'"),
        (["-np", "2", "torchrun", "SCRIPT"], "torchrun starts ranks itself"),
        (["-np", "2", "--seconds", "nan", "SCRIPT"], "--seconds nan is not possible"),
        (["-np", "2", "--pairs", "1", "SCRIPT"], "--pairs 1 is not possible; allowed: 2 to 1000"),
        (["-np", "2", "--steps", "1", "SCRIPT"], "--steps 1 is not possible"),
        (["-np", "2", "--gradients", "none.json"], "--gradients none.json cannot be read"),
        (["-np", "2", "--gradients", "SCRIPT", "SCRIPT"], "give a script or --gradients FILE, one of the two"),
        (["-np", "2", "--rsh", "sh", "SCRIPT"], "--rsh without -H"),
        (["-np", "2", "-H", "a,a", "SCRIPT"], "names the host 'a' twice"),
        (["-np", "2", "--hostfile", "none", "SCRIPT"], "--hostfile none cannot be read"),
        (["-np", "2", "--hostfile", "SCRIPT", "-H", "a", "SCRIPT"], "-H and --hostfile both name the hosts"),
        (["-np", "2", "--env", "NOT_SET_HERE", "SCRIPT"], "--env NOT_SET_HERE: this process has no such variable"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The error is one paragraph, with the remedy; no job is started."""
    script = tmp_path / "script.py"
    script.touch()

    code = cli._run_app(["compare", *(str(script) if word == "SCRIPT" else word for word in words)])

    assert (2, True) == (code, reason in capsys.readouterr().err)
