# SPDX-License-Identifier: Apache-2.0
"""A job that fixed other knobs than the first one of its key asks the real service in its own search space."""

import uuid
from pathlib import Path

import pytest

from ringtune.client import ServiceClient, ServiceRefusedError
from ringtune.tuner import SearchSpace, default_config, search_space
from ringtune.tuning.service_link.results import study_of
from tests.integration.service_link.jobs import run_record
from tests.integration.service_link.real_service import RealService


def test_a_job_gets_configs_of_its_own_search_space(tmp_path: Path) -> None:
    """Over the wire, by the client; a space that is not legal is refused by name."""
    service = RealService(tmp_path)
    service.start()
    try:
        client = ServiceClient(service.url)
        study = client.find_or_create_study(study_of(run_record()))
        of_first = SearchSpace.from_json(study.search_space)
        fixed = default_config().replace({"response_cache": not of_first.default()["response_cache"]})
        own = search_space({"response_cache": fixed["response_cache"]}, fixed)
        beyond = {**own.to_json(), "fixed": {"cycle_ms": 1e6}}
        job = str(uuid.uuid4())

        given = [client.ask(study.id, str(uuid.uuid4()), job, search_space=own.to_json()).config for _ in range(8)]
        plain = client.ask(study.id, str(uuid.uuid4()), job).config

        assert all(own.contains(config) for config in given)
        assert of_first.contains(plain)
        with pytest.raises(ServiceRefusedError, match="search space") as refused:
            client.ask(study.id, str(uuid.uuid4()), job, search_space=beyond)
        assert (422, "outside_search_space") == (refused.value.status, refused.value.code)
    finally:
        service.kill()
