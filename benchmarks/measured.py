# SPDX-License-Identifier: Apache-2.0
"""Short name of the comparison in `benchmarks/tuner/measured`: `python -m benchmarks.measured --help`."""

from benchmarks.tuner.measured.__main__ import main

if __name__ == "__main__":
    main()
