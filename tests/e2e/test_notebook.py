# SPDX-License-Identifier: Apache-2.0
"""The notebook runs from its first cell to its last, trains a tuned job on two ranks, and draws the review."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from job import OURS, REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "tuning.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"
CELL_TIMEOUT_S = 400


def read_notebook() -> nbformat.NotebookNode:
    """Return the notebook as it is in the repository."""
    notebook: nbformat.NotebookNode = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """Run all cells in an empty folder; a cell that raises fails here."""
    notebook = read_notebook()
    # With pytest's own variable a kernel does not show what its child processes write.
    unwanted = (*OURS, "PYTEST_")
    others = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    environment = {**others, "AUTOTUNE_CACHE": "0", "AUTOTUNE_LOCK": "0", "RINGTUNE_ALGORITHM_TABLE": "default"}
    folder = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(notebook, timeout=CELL_TIMEOUT_S, resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    """Return all that the cells have printed or shown as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


@pytest.mark.timeout(600)
def test_the_job_is_tuned_and_comes_back_with_a_result_of_each_rank(executed: nbformat.NotebookNode) -> None:
    """The verdict is in the ranks' output, and both ranks end with one accuracy."""
    (job,) = [cell for cell in executed.cells if "ringtune.run(" in cell.source and cell.cell_type == "code"]

    text = "\n".join(output.get("text", "") for output in job.outputs)
    (returned,) = [output.data["text/plain"] for output in job.outputs if output.output_type == "execute_result"]

    assert "ringtune autotune: adopted" in text or "ringtune autotune: keeping default" in text, text
    assert 2 == returned.count("'accuracy': ")


@pytest.mark.timeout(600)
def test_the_review_is_printed_and_drawn(executed: nbformat.NotebookNode) -> None:
    """The review has the verdict, the knobs, and figures that have data in them."""
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]

    figures = [output.data[PLOTLY] for output in outputs if PLOTLY in output.get("data", {})]

    assert "fusion_bytes" in text_of(executed)
    assert len(figures) >= 3
    assert all(figure["data"] for figure in figures)


def test_the_notebook_is_kept_without_outputs() -> None:
    """The file has no outputs: they belong to one machine and make each change of the notebook unreadable."""
    notebook = read_notebook()

    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    assert "SPDX-License-Identifier: Apache-2.0" in Path(NOTEBOOK).read_text(encoding="utf-8")
