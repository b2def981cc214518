# SPDX-License-Identifier: Apache-2.0
"""Tests of earlier studies as priors: the chosen ones, their order, and their value."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtune.tuner import (
    Config,
    Phase,
    RunSettings,
    SilentObserver,
    Trial,
    TuningRun,
    default_config,
    make_designer,
    search_space,
)
from ringtune.tuner.logs.reader import MOST_SAMPLES, RunLog
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.logs.store import KeepingLog, StudyStore
from ringtune.tuner.priors.warm_start import MIN_CONFIGS, MOST_STUDIES, EarlierStudy, adopted_config, earlier_studies
from ringtune.tuner.simulator import SCENARIOS
from ringtune.tuner.testing import SyntheticTarget, engine_like_surface, measured_trial
from tests.unit.tuner.recording import tune

VERSIONS = Path(__file__).parents[3] / "contract" / "service" / "versions"
KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}
SPACE = search_space({}, default_config())
TRIALS = [measured_trial(0, default_config(), [20.0, 20.1])]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """A finished run of 20 samples on the engine-like surface."""
    log = KeepingLog()
    tune(SyntheticTarget(seed=3), settings=RunSettings(key=KEY, seed=3), log=log)
    store = StudyStore(tmp_path_factory.mktemp("cache") / "studies.jsonl")
    store.keep(log.finished_run())
    (kept,) = store.runs()
    return kept


def asked(run: RunLog, **changed: object) -> RunLog:
    """Return the run as if it had asked another question."""
    assert run.run is not None
    return replace(run, run=replace(run.run, key={**run.run.key, **changed}))


def test_an_earlier_study_knows_what_is_good(run: RunLog) -> None:
    """Its expectation of unmeasured configs follows the truth."""
    (study,) = earlier_studies([run], KEY, SPACE, 0)
    rng = np.random.default_rng(0)
    configs = [SPACE.random(rng) for _ in range(100)]

    expected = study.log_step_ms(configs, TRIALS)

    assert np.corrcoef(expected, [engine_like_surface(config) for config in configs])[0, 1] > 0.6


class DearCycles:
    """A model of a job that expects a millisecond more of `cycle_ms` to cost a percent."""

    name = "dear_cycles"

    def __init__(self) -> None:
        """Begin without a query."""
        self.is_asked = False

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> NDArray[np.float64]:
        """Return the expected time."""
        del trials
        self.is_asked = True
        return np.array([0.01 * float(config["cycle_ms"]) for config in configs])


def test_far_from_its_samples_it_expects_what_a_model_of_the_job_does() -> None:
    """Its samples, all of short cycles, agree with the model, which tells of long ones; alone they do not."""
    space = search_space({}, default_config(), tuned=("cycle_ms",))
    model = DearCycles()
    short = [default_config().replace({"cycle_ms": 0.25 * (i + 1)}) for i in range(12)]
    trials = [measured_trial(i, c, [20.0 * float(np.exp(model.log_step_ms([c], ())[0]))]) for i, c in enumerate(short)]
    asked_about = [default_config().replace({"cycle_ms": cycle_ms}) for cycle_ms in (3.0, 50.0)]

    with_model, without = (EarlierStudy(space, trials, 0, models) for models in ([model], []))

    assert np.diff(with_model.log_step_ms(asked_about, ())) == pytest.approx(0.47, abs=0.05)
    assert np.diff(without.log_step_ms(asked_about, ())) < 0.3


@pytest.mark.parametrize(
    ("changed", "is_asked"), [({}, True), ({"hardware": "i"}, True), ({"layout": [4]}, False), ({"model": "n"}, False)]
)
def test_the_model_of_a_job_is_asked_of_studies_of_the_same_gradients_and_layout(
    run: RunLog, changed: dict[str, object], is_asked: bool
) -> None:
    """A job's model holds for equal gradients and layout; the constants of a machine come from the samples."""
    model = DearCycles()
    (study,) = earlier_studies([asked(run, **changed)], KEY, SPACE, 0, [model])

    study.log_step_ms([default_config()], ())

    assert model.is_asked is is_asked


def test_with_it_the_first_suggestion_is_good(run: RunLog) -> None:
    """Better than nine in ten of random ones, from the baseline's samples alone."""
    designer = make_designer("gp", SPACE, 0, earlier_studies([run], KEY, SPACE, 0))
    rng = np.random.default_rng(1)
    random = sorted(engine_like_surface(SPACE.random(rng)) for _ in range(200))

    designer.update(TRIALS)

    assert engine_like_surface(designer.suggest().config) < random[20]


@pytest.mark.parametrize(
    "changed",
    [{"target": "torch-ddp"}, {"surface_version": 2}, {"model": "n", "hardware": "i"}],
    ids=["another engine", "another engine's version", "neither model nor machine"],
)
def test_a_study_of_something_else_is_not_taken(run: RunLog, changed: dict[str, object]) -> None:
    """A study of another question does not apply."""
    assert earlier_studies([asked(run, **changed)], KEY, SPACE, 0) == ()


def test_the_same_question_comes_first_then_the_model_then_the_machine(run: RunLog) -> None:
    """The newest of equally relevant studies comes first; no more than can be fitted at every update are kept."""
    exact, same_model, same_machine = asked(run), asked(run, hardware="i", layout=[4]), asked(run, model="n")
    older = replace(exact, samples=run.samples[:-1])

    studies = earlier_studies([same_machine, older, exact, same_model], KEY, SPACE, 0)

    assert len(studies) == MOST_STUDIES
    both = [study.log_step_ms([default_config()], TRIALS)[0] for study in studies]
    (alone,) = earlier_studies([exact], KEY, SPACE, 0)
    assert both[0] == alone.log_step_ms([default_config()], TRIALS)[0]


def test_configs_that_are_not_legal_now_are_left_out(run: RunLog) -> None:
    """A knob that is fixed to another value leaves too little to know anything."""
    fixed = search_space({"fusion_bytes": 0}, Config({**default_config(), "fusion_bytes": 0}))

    assert earlier_studies([run], KEY, fixed, 0) == ()


def test_a_run_of_an_earlier_version_is_a_prior_of_the_same_question(tmp_path: Path) -> None:
    """Configs of a log that knew fewer knobs count with the later ones at their defaults."""
    recording = json.loads((VERSIONS / "seven_knobs.json").read_text())
    records = recording["records"]
    sample = next(record for record in records if record["type"] == "sample" and record["phase"] == Phase.SEARCH)
    more = [
        {
            **sample,
            "window": 100 + number,
            "trial_id": 100 + number,
            "config": {**sample["config"], "cycle_ms": cycle_ms},
        }
        for number, cycle_ms in enumerate((2.0, 4.0))
    ]
    file = tmp_path / "studies.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in [*records[:-2], *more, *records[-2:]]))
    baseline = default_config()
    space = search_space({}, baseline)
    runs, key = StudyStore(file).runs(), recording["study"]["key"]

    (study,) = earlier_studies(runs, key, space, 0)

    adopted = Config({**baseline, "fusion_bytes": 8 << 20})
    assert (baseline, adopted) == (study.configs[0], study.adopted)
    assert len(study.configs) >= MIN_CONFIGS
    assert adopted == adopted_config(runs, key, space, baseline)


def test_many_samples_of_one_config_are_not_all_taken(run: RunLog) -> None:
    """A thousand would keep a designer busy for minutes without telling it more."""
    many = replace(run, samples=[*run.samples, *[run.samples[-1]] * 1000])
    (study,) = earlier_studies([many], KEY, SPACE, 0)

    assert MOST_SAMPLES >= max(len(trial.samples) for trial in study._trials)


def test_the_best_that_was_measured_is_tried_first(run: RunLog) -> None:
    """No other config is as likely to be good; the second suggestion is another one."""
    (study,) = earlier_studies([run], KEY, SPACE, 0)
    designer = make_designer("gp", SPACE, 0, [study])

    designer.update(TRIALS)
    first = designer.suggest().config
    designer.update([*TRIALS, measured_trial(1, first, [15.0])])
    second = designer.suggest().config

    assert study.best_config() == first
    assert first in study.configs
    assert engine_like_surface(first) <= min(map(engine_like_surface, study.configs)) + 0.05
    assert second not in (first, default_config())


@pytest.mark.parametrize(("step_ms", "repeats_switch"), [(15.0, False), (30.0, True)])
def test_what_an_earlier_study_knows_is_not_tried_again_while_it_holds(step_ms: float, *, repeats_switch: bool) -> None:
    """Its best was better again, so its other findings count; else the opening's switches are tried as without it."""
    space = search_space({}, default_config(), tuned=("cycle_ms", "hierarchical_allreduce"))
    configs = [default_config().replace({"cycle_ms": float(cycle)}) for cycle in (1, 2, 4, 8)]
    switched = default_config().replace({"hierarchical_allreduce": True})
    earlier = [measured_trial(n, c, [20.0 - n, 20.1 - n]) for n, c in enumerate(configs)]
    study = EarlierStudy(space, [*earlier, measured_trial(4, switched, [25.0])], 0)
    designer = make_designer("gp", space, 0, [study])

    designer.update([TRIALS[0], measured_trial(1, study.best_config(), [step_ms])])

    suggested = designer.suggest().config
    is_opening = suggested["hierarchical_allreduce"] is True
    assert repeats_switch == is_opening


def test_a_second_job_adopts_what_the_first_has_found(tmp_path: Path) -> None:
    """Within a hundred steps, through the file: the first config that it tries is the first job's best."""
    store = StudyStore(tmp_path / "studies.jsonl")
    first = KeepingLog()
    job = replace(SCENARIOS["manysmall_8x8_25gbit"], baseline=Config({"hierarchical_allreduce": False}))
    target = job.target(seed=1)
    settings = RunSettings(key=KEY, warmup_steps=0, steps_per_sample=10, seed=1)
    designer = make_designer("gp", target.space(), 1)
    TuningRun(target, designer, settings, first, SilentObserver(), clock=target.clock).run()
    store.keep(first.finished_run())

    later = KeepingLog()
    target = job.target(seed=2)
    studies = earlier_studies(store.runs(), KEY, target.space(), 2)
    settings = replace(settings, max_steps=100, max_samples=100, seed=2)
    warm = make_designer("gp", target.space(), 2, studies)
    result = TuningRun(target, warm, settings, later, SilentObserver(), clock=target.clock).run()

    searched = [r for r in later.finished_run() if isinstance(r, SampleRecord) and r.phase == Phase.SEARCH]
    assert 1 == len(studies)
    assert studies[0].best_config() == Config(searched[0].config)
    assert result.adopted, result.verdict
    assert result.steps <= 100
    assert target.step_ms(result.config) < 0.8 * target.step_ms(result.baseline)
