# SPDX-License-Identifier: Apache-2.0
"""Program on one of two hosts: an executor with a rank on each. Argument: address of the cluster."""

import sys

import ray

from ringtune.ray import RayExecutor
from tests.platforms.ray_cluster import rank_functions

ray.init(address=sys.argv[1], log_to_driver=False)
with RayExecutor(RayExecutor.create_settings(timeout_s=120), num_hosts=2) as executor:
    executor.start()
    for place in executor.run(rank_functions.place):
        sys.stdout.write(f"{place['rank']} {place['size']} {place['sum']} {place['asked']} {place['meeting'][0]}\n")
