# SPDX-License-Identifier: Apache-2.0
"""Short name of the comparison in `benchmarks/tuner/regret`: `python -m benchmarks.regret --help`."""

from benchmarks.tuner.regret.__main__ import main

if __name__ == "__main__":
    main()
