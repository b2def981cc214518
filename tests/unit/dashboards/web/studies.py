# SPDX-License-Identifier: Apache-2.0
"""A listed study with a confirmed best config."""

from ringtune.service.domain.overview import BestConfig, ListedStudy
from ringtune.shared_service.advice.rule import KeyAdvice, KeyVerdicts
from ringtune.shared_service.rest_models import Evidence
from ringtune.tuner import default_config
from ringtune.tuner.priors.relevance import StudyKey

EVIDENCE = Evidence(trials=9, jobs=2, speedup=0.125, ci_low=0.05, ci_high=0.2, age_s=3.0)
BEST = BestConfig(
    default_config(),
    EVIDENCE,
    is_confirmed=True,
    is_promising=True,
    reason="confirmed: adopted in paired tests of 2 tokens",
    tested=0.125,
)
NO_VERDICTS = KeyVerdicts.of(())
CONFIRMED = KeyAdvice("confirmed", None, NO_VERDICTS, BEST.reason)
OPEN = KeyAdvice(None, None, NO_VERDICTS, "no job of this key came to a verdict")
KEPT = KeyAdvice(
    "default", None, NO_VERDICTS, "the newest verdict on this key keeps the default (3 jobs keep the default)"
)
STUDY = ListedStudy(
    study_id="0" * 32,
    key=StudyKey("a" * 64, "b" * 64, (2, 4)),
    model_name="resnet50",
    hardware_name=None,
    machines=None,
    trials=20,
    jobs=3,
    age_s=10.0,
    idle_s=1.0,
    states={"adopted": 2, "keeping_default": 1, "lost": 0},
    advice=CONFIRMED,
    best=BEST,
    baseline_step_ms=20.0,
)
