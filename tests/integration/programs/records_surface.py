# SPDX-License-Identifier: Apache-2.0
"""Records a small surface into a folder without output. Argument: the folder."""

import io
import os
import sys
from pathlib import Path

from rich.console import Console

from ringtune.measuring.bench.surface import record_surface
from tests.integration.small_recording import request

record_surface(request(Path(sys.argv[1])), None, os.environ, Console(file=io.StringIO()))
