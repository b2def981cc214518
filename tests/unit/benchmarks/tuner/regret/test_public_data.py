# SPDX-License-Identifier: Apache-2.0
"""Public measurements as problems: read where they lie, and left out where they do not."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tuner.regret.problems import Sources
from benchmarks.tuner.regret.public_data import HOROVOD_DEFAULT, public_problems, relaunched_problems, steps_of

HOROVOD = """workload,backend,fusion_mb,cycle_ms,hierarchical,step_ms,step_ms_p90,step_ms_min
m,gloo,128,1,0,20.0,30.0,10.0
m,gloo,128,1,0,22.0,30.0,10.0
m,gloo,0,1,0,50.0,60.0,40.0
m,gloo,4,1,0,8.0,9.0,7.0
m,gloo,4,5,0,9.0,9.5,8.5
m,gloo,128,5,0,25.0,26.0,24.0
m,gloo,0,5,0,45.0,46.0,44.0
"""
TWO_LAUNCHES = HOROVOD.replace("22.0,30.0,10.0", "200.0,300.0,100.0")
PICO_HEAD = "system,nnodes,ppn,count_int32,algorithm,iters,first_ns,min_ns,p05_ns,median_ns,mean_ns,p95_ns,max_ns\n"


def test_horovods_surface_is_a_problem(tmp_path: Path) -> None:
    """The baseline is the default of Horovod's version; knobs that were not varied are fixed."""
    (tmp_path / "surfaces").mkdir()
    (tmp_path / "surfaces" / "m_np2_gloo.csv").write_text(HOROVOD)

    (problem,) = public_problems(tmp_path)

    assert "horovod_m_np2_gloo" == problem.name
    assert HOROVOD_DEFAULT == problem.baseline
    assert 8.0 == pytest.approx(problem.optimum_ms, rel=0.02)
    assert {"hierarchical_allreduce"} == set(problem.table.space.fixed)


def test_a_job_keeps_its_launch_where_it_is_not_relaunched(tmp_path: Path) -> None:
    """The default's launches took 20 and 200 ms; steps of one, no less than half and no more than 1.5 of its median."""
    (tmp_path / "surfaces").mkdir()
    (tmp_path / "surfaces" / "m_np2_gloo.csv").write_text(TWO_LAUNCHES)

    (kept,), (relaunched,) = public_problems(tmp_path), relaunched_problems(tmp_path)

    assert ("public", "relaunched") == (kept.kind, relaunched.kind)
    assert "horovod_m_np2_gloo_relaunched" == relaunched.name
    assert kept.baseline_ms == relaunched.baseline_ms
    of_steps, of_launches = (np.concatenate(problem.table.noise_at(HOROVOD_DEFAULT)) for problem in (kept, relaunched))
    assert (0.5, 1.5) == pytest.approx((of_steps.min(), of_steps.max()), rel=0.05)
    assert of_launches.max() > 8.0 * of_launches.min()


def test_what_was_launched_once_is_not_relaunched(tmp_path: Path) -> None:
    """No more is known of it."""
    (tmp_path / "surfaces").mkdir()
    once = "".join(line for line in HOROVOD.splitlines(keepends=True) if ",22.0," not in line)
    (tmp_path / "surfaces" / "m_np2_gloo.csv").write_text(once)

    assert 1 == len(public_problems(tmp_path))
    assert [] == relaunched_problems(tmp_path)


def test_a_clusters_allreduces_are_problems(tmp_path: Path) -> None:
    """One per size with enough algorithms, the library's own choice the baseline."""
    (tmp_path / "collectives").mkdir()
    rows = "".join(f"s,8,1,262144,a{n},{_series(100 * n)}\n" for n in range(1, 9))
    text = PICO_HEAD + rows + f"s,8,1,262144,default_ompi,{_series(600)}\n" + rows.replace("262144", "8192")
    (tmp_path / "collectives" / "pico_lumi_leonardo.csv").write_text(text)

    (problem,) = public_problems(tmp_path)

    assert "pico_s_8x1_1024KiB" == problem.name
    assert {"allreduce_algorithm": "default_ompi"} == dict(problem.baseline)
    assert 150e-6 == pytest.approx(problem.optimum_ms, rel=0.02)


@pytest.mark.parametrize(
    ("ending", "slowest", "slow_mean"),
    [
        pytest.param("20,900,600,610,650,658.94,900,900", 680.0, 665.0, id="the first call is the slowest"),
        pytest.param("20,900,600,610,650,684.1,1150,1150", 680.0, 665.0, id="another is slower still"),
        pytest.param("200,900,600,610,650,660,690,900", 690.0, 672.0, id="enough calls for a quantile"),
    ],
)
def test_a_call_that_warms_up_is_no_step(tmp_path: Path, ending: str, slowest: float, slow_mean: float) -> None:
    """A call that warms up is left out: among few calls it would be the quantile, and stretch all the slow half."""
    (tmp_path / "collectives").mkdir()
    rows = "".join(f"s,8,1,262144,a{n},{_series(100 * n)}\n" for n in range(1, 9))
    (tmp_path / "collectives" / "pico_lumi_leonardo.csv").write_text(
        f"{PICO_HEAD}{rows}s,8,1,262144,default_ompi,{ending}\n"
    )

    (problem,) = public_problems(tmp_path)

    (window,) = problem.table.cells[problem.baseline]
    assert 650e-6 == pytest.approx(np.median(window), rel=0.01)
    assert slowest * 1e-6 == pytest.approx(max(window), rel=0.01)
    assert slow_mean * 1e-6 == pytest.approx(np.mean(np.sort(window)[len(window) // 2 :]), rel=0.01)


def test_data_that_is_not_there_is_said_and_left_out(tmp_path: Path) -> None:
    """Missing data is reported and left out, as is a folder that was not named."""
    assert [] == public_problems(tmp_path)
    assert any("--data names no folder" in note for note in Sources(tmp_path).missing())
    assert any("make a problem" in note for note in Sources(tmp_path, tmp_path).missing())


def test_steps_have_the_quantiles_they_were_made_of() -> None:
    """In an order that is always the same, and another for another seed."""
    quantiles = [(0.0, 1.0), (0.5, 2.0), (0.9, 5.0), (1.0, 5.0)]

    steps = steps_of(quantiles, 0, 1000)

    assert 2.0 == pytest.approx(np.median(steps), rel=0.01)
    assert 5.0 == pytest.approx(np.quantile(steps, 0.9), rel=0.01)
    assert steps == steps_of(quantiles, 0, 1000)
    assert steps != steps_of(quantiles, 1, 1000)


def _series(least_ns: int) -> str:
    """Return a series of calls as a row's end: the first, which warms up, takes three times as long."""
    first_ns = 3 * least_ns
    quantiles = f"{least_ns},{least_ns + 10},{least_ns + 50},{1.1 * least_ns + 45},{first_ns}"
    return f"20,{first_ns},{quantiles},{first_ns}"
