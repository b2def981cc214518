# SPDX-License-Identifier: Apache-2.0
"""All options of `ringtune run`, in the order of `--help`."""

from collections.abc import Mapping

from .elastic_options import ELASTIC
from .engine_options import DIAGNOSIS, KNOBS, TUNER
from .foreign_options import CONTROLLERS, LIBRARIES
from .job_options import HOSTS, JOB, OUTPUT, SSH
from .option import LaunchOption, OptionGroup

GROUPS: tuple[OptionGroup, ...] = (JOB, HOSTS, SSH, ELASTIC, OUTPUT, KNOBS, TUNER, DIAGNOSIS, CONTROLLERS, LIBRARIES)
OPTIONS: Mapping[str, LaunchOption] = {option.field: option for group in GROUPS for option in group.options}
"""Options by field."""
