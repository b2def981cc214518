# SPDX-License-Identifier: Apache-2.0
"""A job's prior, the recommendation without a service and the service name the same study as the nearest."""

import json
import random
from pathlib import Path

from ringtune.service.domain import Service
from ringtune.service.domain.values import RecommendationQuery
from ringtune.tuner import Config, default_config, search_space
from ringtune.tuner.logs.store import StudyStore
from ringtune.tuner.priors.relevance import MAX_DISTANCE, StudyKey, distance
from ringtune.tuner.priors.warm_start import earlier_studies
from ringtune.tuning.service_link.local_studies import StudyQuery, recommend_from
from tests.integration.service_store.run_logs import log_of

KEYS = 50
STUDIES = 3
NOW_UNIX_S = 2e9
HARDWARE = ("a" * 64, "b" * 64)
LOCAL_SIZES, HOSTS = (2, 4, 8, 16), (2, 3, 4, 16)


def drawn_key(rng: random.Random, model: str, *, one_host: bool) -> StudyKey:
    """Return a key of one host, or of several equal ones: a job's prior takes configs that are legal in both."""
    return StudyKey(rng.choice(HARDWARE), model, (rng.choice(LOCAL_SIZES),) * (1 if one_host else rng.choice(HOSTS)))


def log_at(key: StudyKey, number: int) -> list[dict[str, object]]:
    """Return the log of a run that adopted the config whose cycle time is its number."""
    default = default_config(key.layout)
    adopted, *others = (default.replace({"cycle_ms": cycle_ms}) for cycle_ms in (2.0 + number, 20.0, 40.0))
    return log_of(f"{key.model[-8:]}-{number}", key=key, default=default, adopted=adopted, others=others)


def drawn_studies(rng: random.Random, query: StudyKey) -> list[StudyKey]:
    """Return other keys of the same model, no two of them equally far."""
    found: dict[float, StudyKey] = {}
    while len(found) < STUDIES:
        key = drawn_key(rng, query.model, one_host=len(query.layout) == 1)
        if key != query and distance(query, key) <= MAX_DISTANCE:
            found.setdefault(distance(query, key), key)
    return list(found.values())


def test_job_command_and_service_agree_on_the_nearest_study(service: Service, tmp_path: Path) -> None:
    """For fifty keys, each with three other studies of its model on two machines in several layouts."""
    rng = random.Random(11)
    for number in range(KEYS):
        wanted = drawn_key(rng, f"{number:064x}", one_host=number % 2 == 0)
        logs = [log_at(key, place) for place, key in enumerate(drawn_studies(rng, wanted))]
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(f"{json.dumps(record)}\n" for log in logs for record in log))
        for log in logs:
            service.ledger.take_run(log)
        runs, default = StudyStore(file).runs(), default_config(wanted.layout)

        prior = earlier_studies(runs, {**vars(wanted)}, search_space({}, default), 0)[0].configs
        query = StudyQuery(wanted.model, wanted.world_size, wanted.layout[0], wanted.hardware)
        command = recommend_from(runs, query, NOW_UNIX_S)
        answer = service.recommendations.find(
            RecommendationQuery(wanted.hardware, wanted.world_size, wanted.layout[0], wanted.model)
        )

        assert ("nearest", command.key, command.distance) == (answer.source, answer.key, answer.distance), wanted
        assert Config(command.config).to_json() == Config(answer.config).to_json()
        assert command.config["cycle_ms"] in {config["cycle_ms"] for config in prior}, wanted
