# SPDX-License-Identifier: Apache-2.0
"""Table of the policy's numbers in docs/how_it_decides.md, from `ringtune.tuner.policy_numbers`.

`python -m docs.generators.policy_numbers` rewrites it between its marks; a test fails when the page is out of date.
"""

import re
from pathlib import Path

from ringtune.tuner.policy_numbers import policy_numbers

PAGE = Path(__file__).parents[1] / "how_it_decides.md"
MARKED = re.compile(r"(?<=<!-- numbers -->\n).*?(?=<!-- end of numbers -->)", re.DOTALL)


def table() -> str:
    """Return the table, a row for each number."""
    rows = [f"| `{each.name}` | {each.value:g} {each.unit} | {each.reason} |" for each in policy_numbers()]
    return "\n".join(["| number | value | reason |", "|---|---|---|", *rows]) + "\n"


def with_table(page: str) -> str:
    """Return the page with the table as it is now."""
    return MARKED.sub(lambda _: table(), page)


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
