# SPDX-License-Identifier: Apache-2.0
"""Simulator: a discrete-event model of the engine's cycle for one to thousands of ranks, and a target of the tuner.

`predicted_step_ms(machine, cluster, job, config)` is the model. `SimulatedTarget` adds noise and a clock. `SCENARIOS`
holds named jobs. `forecast` estimates the possible gain of tuning. The simulator is independent of the cost model that
designers use as a prior.
"""

from .architectures import MODELS
from .cluster import Cluster, Link, parse_link
from .drawing import render_forecast
from .forecast import Curve, Expected, Forecast, StepSurface, forecast, to_json
from .job import Gradient, SimulatedJob, read_gradients
from .machine import SimulatedMachine
from .model_jobs import described_job, model_job
from .noise import Noise
from .scenarios import SCENARIOS, Scenario
from .step import Response, StepTrace, predicted_step_ms, simulate_step
from .target import SimulatedTarget, best_of, simulated_space

__all__ = [
    "MODELS",
    "SCENARIOS",
    "Cluster",
    "Curve",
    "Expected",
    "Forecast",
    "Gradient",
    "Link",
    "Noise",
    "Response",
    "Scenario",
    "SimulatedJob",
    "SimulatedMachine",
    "SimulatedTarget",
    "StepSurface",
    "StepTrace",
    "best_of",
    "described_job",
    "forecast",
    "model_job",
    "parse_link",
    "predicted_step_ms",
    "read_gradients",
    "render_forecast",
    "simulate_step",
    "simulated_space",
    "to_json",
]
