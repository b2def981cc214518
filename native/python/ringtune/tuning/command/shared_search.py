# SPDX-License-Identifier: Apache-2.0
"""Shared search: machines that run one command line try the configs of one study, which the service hands out.

Every machine is a job of the study. The service suggests each config under a lease, which a thread renews while the
launch runs; a machine that dies loses its leases, and their configs are suggested again. Each machine measures the
baseline, by which the service compares machines, and tests one config against it in pairs: the study's best so far. So
neither the search nor the test compares times of two machines directly.

A service that does not answer never ends a run: the machine's own designer suggests meanwhile, and results wait.
"""

import contextlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ringtune.client import (
    ExchangeLimits,
    Recommendation,
    ServiceClient,
    ServiceUnavailableError,
    Suggestion,
    page_url,
)
from ringtune.errors import ConfigError, StoreError
from ringtune.shared_service.advice.answers import is_default
from ringtune.tuner import Config, Designer, Phase, RunSettings, SearchSpace, SpaceError, Trial
from ringtune.tuner import Suggestion as Design
from ringtune.tuner.designers import DesignerWrapper
from ringtune.tuner.logs.records import AdoptionRecord, EndRecord, Record, ResultRecord, RunRecord, SampleRecord
from ringtune.tuning.service_link.first_config import legal_config
from ringtune.tuning.service_link.results import ENDED_EARLY, MAX_VERDICT, RUNNING, Json, Results, facts_of

from .report import settings_text
from .study_key import LAYOUT, shared_key

Warn = Callable[[str], None]
URL_NAME, TOKEN_NAME = "AUTOTUNE_SERVICE_URL", "AUTOTUNE_SERVICE_TOKEN"
CALL_LIMIT_S = 15.0
"""Deadline of one call of the service, seconds; a busy machine is no reason to search alone."""
MIN_LEASE_S, MAX_LEASE_S = 2.0, 60.0
"""Bounds of the time until the config of a machine that died is suggested again, seconds."""
ANSWER_AGE_S = 1.2
"""Age of the service's answers by default, with a reserve, seconds: the outcome has to know this machine's test."""
LEASES_PER_TIMEOUT = 4
"""Leases in the time limit of a launch."""
RENEWALS_PER_LEASE = 3
"""Renewals in the time of one lease: two may fail."""


class SharedStudy:
    """This machine's part of a study at the service: a log sink that reports, leases of configs, and the outcome.

    `write` and `close` belong to the thread of the run, `suggest` and `best` to the designer's.

    Attributes:
        outcome: The study's answer once this machine has ended, None if the service did not answer.
    """

    def __init__(
        self, environ: Mapping[str, str], settings: RunSettings, space: SearchSpace, timeout_s: float, warn: Warn
    ) -> None:
        """Find the study, or create it.

        Args:
            environ: Environment with the service's URL, and its token if it needs one.
            settings: The run, with its study's key.
            space: The legal configs.
            timeout_s: Limit of one launch, seconds: a short one has short leases.
            warn: Shows a warning.

        Raises:
            ConfigError: If the environment names no service.
            StoreError: If the service does not answer, or does not take the study.
        """
        if not environ.get(URL_NAME):
            raise ConfigError(f"--shared takes its configs from a service (ringtune serve); set {URL_NAME} to its URL")
        url, token, limits = environ[URL_NAME], environ.get(TOKEN_NAME), ExchangeLimits(CALL_LIMIT_S)
        self._client, self._renewing = (ServiceClient(url, token, limits) for _ in range(2))
        self._key, self._space = shared_key(settings.key), space
        self._lease_s, self._warn = min(max(timeout_s / LEASES_PER_TIMEOUT, MIN_LEASE_S), MAX_LEASE_S), warn
        study = {"key": self._key, "model_name": settings.model_name, "search_space": space.to_json()}
        self._study = self._client.find_or_create_study(study)
        self._results: Results | None = None
        self._facts: Json = {}
        self._unsent: deque[Callable[[], object]] = deque()
        self._held: dict[Config, Suggestion] = {}
        self._is_over = threading.Event()
        self._renewer = threading.Thread(target=self._renew, name="ringtune-lease", daemon=True)
        self._renewer.start()
        self.outcome: Recommendation | None = None

    @property
    def page(self) -> str | None:
        """URL of the study's page; None where the service has no pages."""
        return page_url(self._client.url, self._study.page)

    def suggest(self) -> Config | None:
        """Return a config of the service under a lease; None if it has none that is legal here, or does not answer."""
        space = self._space.to_json()
        try:
            leased = self._client.ask(
                self._study.id, str(uuid.uuid4()), self._facts["job_id"], self._lease_s, search_space=space
            )
            config = legal_config(leased.config, self._space)
        except (StoreError, SpaceError) as error:
            self._warn(f"the service suggests no config ({error}); this machine searches by itself meanwhile")
            return None
        self._held[config] = leased
        return config

    def best(self) -> Config | None:
        """Return the study's best config: adopted by a paired test, else the one to try first; None if not known."""
        try:
            offer = self._answer()
            config = offer.try_first if is_default(offer) else offer.config
            return None if config is None else legal_config(config, self._space)
        except (StoreError, SpaceError) as error:
            self._warn(f"the best config of all machines is not known here: {error}")
            return None

    def write(self, record: Record) -> None:
        """Report a record of the run; a failure is a warning."""
        if isinstance(record, RunRecord):
            self._results = Results(record)
            self._report_state(facts_of(record))
        if self._results is not None and (result := self._results.take(record)) is not None:
            self._report(self._leased(result, record))
        if isinstance(record, AdoptionRecord | EndRecord):
            self._facts = {**self._facts, "verdict": record.verdict[:MAX_VERDICT]}
        if isinstance(record, ResultRecord):
            self._report_state({**self._facts, "state": "adopted" if record.adopted else "keeping_default"})

    def close(self) -> None:
        """Release the configs that were not measured, report the end and ask for the outcome; idempotent."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._renewer.join()
        for held in self._held.values():
            self._send(partial(self._client.release, self._study.id, held, self._facts["job_id"]))
        if self._facts.get("state") == RUNNING:
            self._report_state({**self._facts, "state": ENDED_EARLY})
        if self._unsent:
            self._warn(f"{len(self._unsent)} reports did not reach the service")
        time.sleep(ANSWER_AGE_S)
        with contextlib.suppress(StoreError):
            self.outcome = self._answer()
        self._client.close()
        self._renewing.close()

    def outcome_text(self, baseline: Config) -> str:
        """Return the study's answer once this machine has ended: its best config so far, and the evidence."""
        if self.outcome is None:
            return "not known: the service did not answer"
        if is_default(self.outcome):
            return f"keeping default: {self.outcome.reason}"
        return f"{settings_text(Config(self.outcome.config), baseline)}: {self.outcome.reason}"

    def _answer(self) -> Recommendation:
        """Return the service's answer for the key, which is the same for every machine."""
        return self._client.recommendation(
            hardware=self._key["hardware"],
            model_fingerprint=self._key["model"],
            world_size=sum(LAYOUT),
            local_size=max(LAYOUT),
            target=self._key["target"],
            surface_version=self._key["surface_version"],
        )

    def _leased(self, result: Json, record: Record) -> Json:
        """Return the result with its lease, if the service suggested the config of this launch."""
        is_search = isinstance(record, SampleRecord) and record.phase == Phase.SEARCH
        held = self._held.pop(Config(result["config"]), None) if is_search else None
        if held is None:
            return result
        return {**result, "trial_id": held.trial_id, "fencing_token": held.lease.fencing_token}

    def _report(self, result: Json) -> None:
        body = {name: value for name, value in result.items() if name != "trial_id"}
        self._send(partial(self._client.tell, self._study.id, result["trial_id"], body))

    def _report_state(self, facts: Json) -> None:
        self._facts = facts
        self._send(partial(self._client.put_job, self._study.id, facts))

    def _send(self, call: Callable[[], object]) -> None:
        """Make a call after those that wait; one that does not reach the service waits for the next."""
        self._unsent.append(call)
        while self._unsent:
            try:
                self._unsent[0]()
            except ServiceUnavailableError as error:
                self._warn(f"a report waits for the service: {error}")
                return
            except StoreError as error:
                self._warn(f"the service does not take a report: {error}")
            self._unsent.popleft()

    def _renew(self) -> None:
        """Renew the leases until the end; a lost one costs no more than a second launch of its config elsewhere."""
        while not self._is_over.wait(self._lease_s / RENEWALS_PER_LEASE):
            for held in list(self._held.values()):
                with contextlib.suppress(StoreError):
                    self._renewing.renew(self._study.id, held, self._facts["job_id"], self._lease_s)


class SharedDesigner(DesignerWrapper):
    """Designer of one machine: the service's configs, and for its last sample the study's best, to test it in pairs.

    The wrapped designer judges this machine's own samples, and suggests where the service does not.
    """

    def __init__(self, designer: Designer, study: SharedStudy, max_samples: int) -> None:
        """Stand before the machine's own designer.

        Args:
            designer: The machine's own.
            study: The study.
            max_samples: Number of samples of this machine's search.
        """
        super().__init__(designer)
        self._study = study
        self._max_samples = max_samples
        self._trials: Sequence[Trial] = ()
        self._is_services = False

    @property
    def name(self) -> str:
        """Origin of the newest suggestion: `service`, or the other designer's name."""
        return "service" if self._is_services else self.designer.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Replace the data by all trials so far."""
        self._trials = trials
        self.designer.update(trials)

    def suggest(self) -> Design:
        """Return the config to try next."""
        searched = sum(sample.phase is Phase.SEARCH for trial in self._trials for sample in trial.samples)
        config = self._study.best() if searched + 1 >= self._max_samples else None
        if config is None or any(config == trial.config for trial in self._trials):
            config = self._study.suggest()
        self._is_services = config is not None
        return self.designer.suggest() if config is None else Design(config)
