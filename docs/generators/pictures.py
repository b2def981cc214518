# SPDX-License-Identifier: Apache-2.0
"""Take the tutorial's pictures from real runs of its commands (`make docs-pictures`).

Terminals become SVG, pages become PNG by way of Debian's chromium. They show the commands' real output.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"
BIN = Path(sys.executable).parent
COLUMNS = 112
TIMEOUT_S = 400.0
MOST_BYTES = 150_000
"""Limit on a picture's file, so that a page opens at once."""
DESKTOP = {"width": 1100, "height": 820}
LIST_WIDTH = 1360
"""Width in pixels at which no column of the list of studies is hidden."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
OUTSIDE_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
JOB = "ringtune run -np 2 python examples/digits.py --train-for-tuner"
BUDGET = {"AUTOTUNE_MAX_SAMPLES": "12", "AUTOTUNE_STEPS_PER_SAMPLE": "35", "AUTOTUNE_MODEL": "digits"}
BASELINE = "AUTOTUNE_BASELINE=fusion_bytes=0,cycle_ms=20"
USUAL_ADDRESS = "http://127.0.0.1:8470"
LOG, PAGE = "build/tuning.jsonl", "build/review.html"


@dataclass(frozen=True)
class Workplace:
    """A folder like a fresh clone, in which commands run: it has the examples and no traces of earlier jobs.

    Attributes:
        folder: Takes logs, the database and caches.
    """

    folder: Path

    def prepare(self) -> None:
        """Make the folder anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "build").mkdir(parents=True)
        (self.folder / "examples").symlink_to(REPOSITORY / "examples")

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the commands: this process's, with an empty cache and plain, wide output."""
        ours = {name: str(self.folder / name.lower()) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME")}
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **BUDGET, **ours, "PATH": path, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}

    def run(self, command: str) -> str:
        """Run a command line; return its output on a terminal, both streams in their order.

        Raises:
            subprocess.SubprocessError: If it fails or takes too long.
        """
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        return done.stdout


def draw_terminal(name: str, shown: Sequence[tuple[str, str]]) -> None:
    """Write a picture of a terminal.

    Args:
        name: The picture's file name, without its ending.
        shown: Commands as they were typed, each with its output.
    """
    console = Console(record=True, file=io.StringIO(), width=COLUMNS, force_terminal=True)
    for command, printed in shown:
        console.print(Text(f"$ {command}", style="bold"), soft_wrap=False)
        console.print(Text.from_ansi(printed.rstrip("\n")))
    picture = console.export_svg(title=name, code_format=OUTSIDE_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id=name)
    _keep(f"{name}.svg", "".join(line.rstrip() + "\n" for line in picture.splitlines()).encode())


def _keep(name: str, picture: bytes) -> None:
    if len(picture) > MOST_BYTES:
        raise SystemExit(f"the picture {name} has {len(picture)} bytes; {MOST_BYTES} are allowed: show less on it")
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / name).write_bytes(picture)
    Console().print(f"docs/pictures/{name}: {len(picture):,} bytes")


@contextmanager
def browser() -> Iterator[Any]:
    """Start Debian's chromium.

    Raises:
        SystemExit: If there is none.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only who takes pictures has it)

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium: make system-packages installs it")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


def photograph_report(window: Any, report: Path) -> None:
    """Take the head of a report, and its first figure."""
    page = window.new_page(viewport=DESKTOP, color_scheme="light")
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-drawn]")
    _keep("report.png", page.screenshot())
    figure = page.locator("[data-figure]").first
    figure.scroll_into_view_if_needed()
    _keep("report_figure.png", figure.screenshot())
    page.close()


def photograph_service(window: Any, address: str) -> None:
    """Take the service's list of studies, the head of the first one, and the answer to its question."""
    page = window.new_page(viewport={**DESKTOP, "width": LIST_WIDTH}, color_scheme="light")
    page.goto(address)
    page.wait_for_selector("tbody tr")
    _keep("service.png", page.screenshot(clip=_down_to(page, ".below-table")))
    page.set_viewport_size(DESKTOP)
    page.goto(urljoin(address, page.locator("a[href^='/studies/']").first.get_attribute("href")))
    page.wait_for_selector("html[data-drawn]")
    _keep("service_study.png", page.screenshot())
    page.goto(urljoin(address, page.locator("a[href^='/recommendations?']").first.get_attribute("href")))
    page.wait_for_selector("[data-copy]")
    _keep("service_recommendation.png", page.screenshot())
    page.close()


def photograph_study_figure(window: Any, address: str) -> None:
    """Take the first figure of the service's first study."""
    page = window.new_page(viewport=DESKTOP, color_scheme="light")
    page.goto(address)
    page.goto(urljoin(address, page.locator("a[href^='/studies/']").first.get_attribute("href")))
    page.wait_for_selector("html[data-drawn]")
    figure = page.locator("[data-plot]").first
    figure.scroll_into_view_if_needed()
    _keep("service_figure.png", figure.screenshot())
    page.close()


def _down_to(page: Any, selector: str) -> Mapping[str, float]:
    """Return the part of a page from its head to the end of an element."""
    box = page.locator(selector).bounding_box()
    return {"x": 0, "y": 0, "width": LIST_WIDTH, "height": box["y"] + box["height"] + 24}


@contextmanager
def service(place: Workplace) -> Iterator[str]:
    """Run `ringtune serve` on a free port; yield its address."""
    process = subprocess.Popen(
        [str(BIN / "ringtune"), "serve", "--port", "0"],
        cwd=place.folder,
        env=dict(place.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for line in process.stdout or ():
            found = re.search(r"http://[\w.:]+", line)
            if found:
                yield found[0]
                break
        else:
            raise SystemExit("ringtune serve ended before it listened; call it by hand to see why")
    finally:
        process.terminate()
        process.wait()


def take_tuning(place: Workplace, window: Any) -> None:
    """Tune the first job, review its log in the terminal and as a page."""
    tuning = f"AUTOTUNE=1 AUTOTUNE_LOG={LOG} {BASELINE} \\\n    {JOB}"
    draw_terminal("tuning", [(tuning, place.run(tuning))])
    review = f"ringtune review {LOG}"
    draw_terminal("review", [(review, place.run(review))])
    place.run(f"{review} --html {PAGE}")
    photograph_report(window, place.folder / PAGE)


def take_service(place: Workplace, window: Any) -> None:
    """Give a service the first job's log, let a second job begin with it, and show both."""
    with service(place) as address:
        push = f"ringtune push {LOG} --service-url {address}"
        second = f"AUTOTUNE=1 AUTOTUNE_CACHE=0 AUTOTUNE_SERVICE_URL={address} {BASELINE} \\\n    {JOB}"
        shown = [(push, place.run(push))]
        photograph_service(window, address)
        shown.append((second, place.run(second)))
        usual = [(typed.replace(address, USUAL_ADDRESS), said.replace(address, USUAL_ADDRESS)) for typed, said in shown]
        draw_terminal("second_job", usual)
        photograph_study_figure(window, address)


def main() -> int:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Take the pictures of the tutorial.")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "pictures", help="for what is run")
    place = Workplace(parser.parse_args().folder)
    place.prepare()
    with browser() as window:
        take_tuning(place, window)
        take_service(place, window)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
