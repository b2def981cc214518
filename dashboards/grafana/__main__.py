# SPDX-License-Identifier: Apache-2.0
"""Write the dashboards into a folder: `python -m ringtune.dashboards.grafana dashboards/grafana`."""

import sys
from pathlib import Path

from . import dashboards


def main(arguments: list[str]) -> int:
    """Write every dashboard; return the exit code."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        sys.stderr.write("usage: python -m ringtune.dashboards.grafana FOLDER, which must exist\n")
        return 2
    for name, dashboard in dashboards().items():
        (Path(arguments[0]) / name).write_text(dashboard.text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
