# SPDX-License-Identifier: Apache-2.0
"""The backend "ringtune" of torch.distributed in real jobs, against Gloo."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.integration.forked_ranks import Forked
from tests.integration.jobs import Finished, Ranks, ringtune, run_job, torchrun
from tests.integration.torch_backend import group_cases, lives, users
from tests.integration.torch_backend.forms import ALL_FORMS, FORMS

PROGRAMS = Path(__file__).resolve().parent / "programs"
CASES = "tests.integration.torch_backend.group_cases"
LIVES = "tests.integration.torch_backend.lives"
USERS = "tests.integration.torch_backend.users"


def run(count: int, program: str, *arguments: str, **environ: str) -> Finished:
    """Run a program on ranks to its end."""
    return run_job(Ranks(count, Forked(PROGRAMS / f"{program}.py", arguments)), environ)


def said(count: int, backend: str, meeting: Path, form: str, module: str, *names: str) -> list[str]:
    """Return the ranks' lines about cases, sorted, once all have passed."""
    finished = run(count, "runs_case", backend, str(meeting), form, module, *names)
    assert 0 == finished.code, finished.text
    lines = sorted(line for line in finished.stdout.splitlines() if " on " in line)
    assert count * len(names) == len(lines), finished.text
    return lines


@pytest.fixture(scope="module")
def said_by_gloo(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Return the ranks' lines under Gloo, by arguments of `said`; runs once for equal ones."""

    @cache
    def ask(count: int, module: str, *names: str) -> list[str]:
        return said(count, "gloo", tmp_path_factory.mktemp("gloo") / "meeting", "python", module, *names)

    return ask


@pytest.mark.parametrize("form", ALL_FORMS)
def test_two_ranks_have_the_bits_of_gloo(tmp_path: Path, said_by_gloo: Callable[..., list[str]], form: str) -> None:
    """Every collective, dtype and reduction that Gloo takes has Gloo's bits on two ranks."""
    expected = said_by_gloo(2, CASES, *group_cases.CASES)

    actual = said(2, "ringtune", tmp_path / "meeting", form, CASES, *group_cases.CASES)

    assert expected == actual


@pytest.mark.parametrize("form", FORMS)
def test_three_ranks_have_the_values_of_gloo(tmp_path: Path, said_by_gloo: Callable[..., list[str]], form: str) -> None:
    """Collectives whose result does not depend on the order of sums are the same on three ranks."""
    names = [name for name in group_cases.CASES if name != "sums_of_floats"]
    expected = said_by_gloo(3, CASES, *names)

    actual = said(3, "ringtune", tmp_path / "meeting", form, CASES, *names)

    assert expected == actual


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_cases_are_right(tmp_path: Path, count: int, form: str) -> None:
    """All front ends' cases, and calls that Gloo refuses: unequal parts in lists, PREMUL_SUM, tensors with holes."""
    said(count, "ringtune", tmp_path / "meeting", form, CASES, *group_cases.OWN_CASES)


@pytest.mark.parametrize("form", ALL_FORMS)
def test_programs_of_users_have_the_bits_of_gloo(
    tmp_path: Path, said_by_gloo: Callable[..., list[str]], form: str
) -> None:
    """DDP, FSDP2, tensor parallelism, ZeRO-1 and others have Gloo's bits, and the numbers of one plain process."""
    expected = said_by_gloo(2, USERS, *users.CASES)

    actual = said(2, "ringtune", tmp_path / "meeting", form, USERS, *users.CASES)

    assert expected == actual


@pytest.mark.parametrize("form", ALL_FORMS)
@pytest.mark.parametrize("name", lives.CASES)
def test_works_and_groups_live_and_end(tmp_path: Path, name: str, form: str) -> None:
    """Futures, time limits, calls that differ, threads and ends are as the case says."""
    said(2, "ringtune", tmp_path / "meeting", form, LIVES, name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "call", ["all_reduce", "all_gather", "all_to_all", "barrier", "broadcast", "gather", "reduce_scatter", "recv"]
)
def test_a_killed_rank_is_named(tmp_path: Path, call: str, form: str) -> None:
    """A rank that dies while others wait for it ends their calls with an error that names it."""
    finished = run(3, "loses_a_rank", str(tmp_path / "meeting"), form, call)

    assert 2 == finished.stdout.count("lost after"), finished.text
    assert 2 <= finished.stdout.count("rank 1"), finished.text


@pytest.mark.parametrize("form", FORMS)
def test_groups_come_one_after_the_other(tmp_path: Path, form: str) -> None:
    """A process may destroy its default group and make another one, by the same store."""
    finished = run(2, "begins_again", str(tmp_path / "meeting"), form)

    assert 2 * 3 == finished.stdout.count("sum 3.0"), finished.text


@pytest.mark.parametrize("form", FORMS)
def test_another_device_has_its_own_backend(tmp_path: Path, form: str) -> None:
    """Tensors of a device for which "cpu:ringtune,DEVICE:OTHER" names another backend are that one's."""
    finished = run(2, "two_backends", str(tmp_path / "meeting"), form)

    assert 2 == finished.stdout.count("sum [3.0, 3.0]"), finished.text


def test_launchers_start_ranks(tmp_path: Path) -> None:
    """One unchanged script runs under torchrun and under `ringtune run`, with data loaders that fork."""
    script = str(PROGRAMS / "is_launched.py")

    by_torchrun = run_job(torchrun(tmp_path / "python", script))
    by_ringtune = run_job(ringtune("run", "-np", "2", sys.executable, script))

    for finished in (by_torchrun, by_ringtune):
        assert 0 == finished.code, finished.text
        assert 2 == finished.stdout.count("sum 3.0"), finished.text
