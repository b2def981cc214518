# SPDX-License-Identifier: Apache-2.0
"""A worker or a parameter server of TensorFlow's `ParameterServerStrategy`; the caller ends it, for it never does.

The argument is the cluster as JSON with this process's task, as TF_CONFIG has it. Needs TensorFlow and no torch.
"""

import json
import sys

import tensorflow as tf


def main() -> None:
    """Serve."""
    config = json.loads(sys.argv[1])
    task = config["task"]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    cluster = tf.train.ClusterSpec(config["cluster"])
    server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"], protocol="grpc")
    print("ready", flush=True)
    server.join()


if __name__ == "__main__":
    main()
