# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of docs/parameter_servers.md from the rows that its tables are made of.

`python -m docs.generators.comparison_pictures` draws them by plotly, and takes them by Debian's chromium.
"""

import tempfile
from pathlib import Path

from rich.console import Console

from benchmarks.parameter_server.plots import HEIGHT_PX, write_plots
from benchmarks.parameter_server.rows import RUNS, read_rows
from docs.generators.pictures import PICTURES, browser

WIDTH_PX = 820
TAKEN = {
    "parameter_server_rates.png": "rates_100mbit.html",
    "parameter_server_loss.png": "loss_1gbit_one_slow.html",
}
"""Pictures by name, and the page that each is taken of."""


def main() -> None:
    """Take the pictures."""
    console = Console()
    with tempfile.TemporaryDirectory() as folder, browser() as window:
        write_plots(read_rows(RUNS), Path(folder))
        for picture, drawn in TAKEN.items():
            page = window.new_page(viewport={"width": WIDTH_PX, "height": HEIGHT_PX}, color_scheme="light")
            page.goto((Path(folder) / drawn).as_uri())
            page.wait_for_selector(".main-svg")
            page.screenshot(path=PICTURES / picture)
            page.close()
            console.print(f"docs/pictures/{picture}: {(PICTURES / picture).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
