# SPDX-License-Identifier: Apache-2.0
"""Jobs with a rank on each of several hosts that a network joins."""

from ringtune.measuring.bench.network import Network
from tests.integration.jobs import Finished, ringtune, run_job


def run_on(network: Network, *words: str, **environ: str) -> Finished:
    """Run a job with a rank on each host to its successful end."""
    count = len(network.hosts)
    remote = ("-H", network.places(count), "--rsh", str(network.remote_shell), "--no-prefix-output")
    command = network.hosts[0].launcher_command(*ringtune("run", "-np", str(count), *remote, *words))
    finished = run_job(command, environ)
    assert 0 == finished.code, finished.text
    return finished
