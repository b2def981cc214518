# SPDX-License-Identifier: Apache-2.0
"""Studies side by side."""

from dataclasses import replace

import pytest

from ringtune.dashboards.web.views.compare import compared, comparison_figures
from tests.unit.dashboards.web.studies import STUDY


@pytest.mark.parametrize(("models", "names"), [("bb", ["speedups", "step-times"]), ("bc", ["speedups"])])
def test_step_times_of_several_models_stand_in_no_figure(models: str, names: list[str]) -> None:
    """Steps of different models are not comparable; gains are."""
    studies = [
        replace(STUDY, study_id=f"{number:032x}", key=replace(STUDY.key, model=model * 64))
        for number, model in enumerate(models)
    ]

    assert names == [figure.name for figure in comparison_figures(studies, compared(studies))]
