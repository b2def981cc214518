# SPDX-License-Identifier: Apache-2.0
"""Pages in Debian's chromium, and their actions there: complaints, dialogs, requests, violations of the policy."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

CHROMIUM = shutil.which("chromium")
# Chromium runs without its sandbox because tests may run as root, and does not look for hosts by itself.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}
LIMIT_MS = 150_000
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""
IS_DRAWN = "() => !document.querySelector('[data-figure]') || document.documentElement.dataset.drawn !== undefined"


@dataclass
class Visit:
    """A page in the browser.

    Attributes:
        page: Playwright's.
        complaints: The console's messages, errors of scripts, and dialogs.
        requests: Every URL that was asked for.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def go(self, url: str) -> "Visit":
        """Open a page and wait until its figures are drawn."""
        self.page.goto(url)
        self.page.wait_for_function(IS_DRAWN, timeout=LIMIT_MS)
        return self

    def turn_to(self, scheme: str, size: dict[str, int]) -> None:
        """Change colour scheme and window of the page that is open, and wait until its figures are drawn anew."""
        self.page.evaluate("delete document.documentElement.dataset.drawn")
        self.page.set_viewport_size(size)
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function(IS_DRAWN, timeout=LIMIT_MS)

    @property
    def violations(self) -> list[str]:
        """Return the loads and scripts on this page that the content policy forbade."""
        found: list[str] = self.page.evaluate("window.violations")
        return found

    @property
    def overflow(self) -> int:
        """Return by how many pixels the page itself is wider than the screen."""
        return int(self.page.evaluate("document.scrollingElement.scrollWidth - innerWidth"))


@contextmanager
def visiting(browser: Any, *, scheme: str = "light", size: dict[str, int] | None = None) -> Iterator[Visit]:
    """Open an empty page that is watched, in a browser without cookies."""
    context = browser.new_context(color_scheme=scheme, viewport=size or DESKTOP)
    context.set_default_timeout(LIMIT_MS)
    context.add_init_script(WATCH)
    page = context.new_page()
    seen = Visit(page)
    page.on("console", lambda message: _note_console(seen, message))
    page.on("pageerror", lambda error: seen.complaints.append(f"script: {error}"))
    page.on("dialog", lambda dialog: _note_dialog(seen, dialog))
    page.on("request", lambda request: seen.requests.append(request.url))
    yield seen
    context.close()


def _note_console(seen: Visit, message: Any) -> None:
    """Note errors, but for the browser's own message about a page with an error status."""
    is_status = re.match(r"Failed to load resource: the server responded with a status of 4", message.text)
    if message.type in {"error", "warning"} and not is_status:
        seen.complaints.append(message.text)


def _note_dialog(seen: Visit, dialog: Any) -> None:
    seen.complaints.append(f"dialog: {dialog.message}")
    dialog.dismiss()
