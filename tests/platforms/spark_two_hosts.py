# SPDX-License-Identifier: Apache-2.0
"""Driver of a Spark cluster of two hosts: a job with a rank on each, then an elastic one that outlives a host.

Arguments: the master's address, this host's own, and a folder that all hosts see. Prints results as JSON.
"""

import json
import sys
from dataclasses import asdict

from pyspark.sql import SparkSession

import ringtune.spark
from tests.platforms import spark_functions as functions


def main() -> None:
    """Run both jobs in one session."""
    master, address, folder = sys.argv[1:]
    builder = SparkSession.builder.master(master).appName("ringtune")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    seen = ringtune.spark.run(functions.see, num_proc=2)
    outlived = ringtune.spark.run_elastic(
        functions.train_until_a_host_is_replaced, (folder, 5), num_proc=2, min_num_proc=1, max_num_proc=2
    )
    sys.stdout.write(json.dumps({"seen": [asdict(one) for one in seen], "outlived": outlived}) + "\n")
    session.stop()


main()
