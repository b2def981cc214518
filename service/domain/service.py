# SPDX-License-Identifier: Apache-2.0
"""The facade: everything the service does, over one database.

Every call opens its own transaction, may come from any thread, and returns frozen values or raises a ServiceError.
"""

from ringtune.service.errors import ServiceError
from ringtune.service.store import Database, Readiness, migrate
from ringtune.tuner import SearchSpace
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS

from .archive import Archive
from .design_tasks import DesignTasks
from .designing import Designing
from .events import Events
from .jobs import Jobs
from .ledger import Ledger
from .page_sessions import PageSessions
from .policy import ServiceLimits
from .recommendations import Recommendations
from .result_store import ResultStore
from .retention import Retention
from .studies import Studies
from .study_cache import StudyCache
from .suggestions import Suggestions
from .summary_updates import rebuild_all
from .token_results import TokenResults
from .tokens import Tokens
from .values import Load
from .writer import GroupWriter, OnPoint, ignore_point


class Service:
    """The domain's calls, for the API.

    Attributes:
        studies: Found, created, listed, deleted.
        suggestions: Configs to try, under leases.
        ledger: Results.
        jobs: Reports of jobs about themselves.
        recommendations: Recommended starts.
        tokens: Tokens and their scopes.
        token_results: Counting of a token's results, and their deletion.
        archive: Export and import.
        retention: Deletion of old results.
        events: Feed of changes.
        page_sessions: Browsers that signed in.
    """

    def __init__(
        self,
        database: Database,
        *,
        box: SearchSpace | None = None,
        policy: ServiceLimits | None = None,
        writer_type: type[GroupWriter] = GroupWriter,
        on_point: OnPoint = ignore_point,
    ) -> None:
        """Put the parts together; none is started, and the database is not read.

        Args:
            database: The database.
            box: Legal configs of the engine; None: the engine's parameters.
            policy: Limits; None: the defaults.
            writer_type: Class of the writer (tests of crashes have a control that answers too early).
            on_point: Is told where the writer is (tests of crashes).
        """
        self._database = database
        self._readiness = Readiness(database)
        self._policy = policy or ServiceLimits()
        box = box or SearchSpace(ENGINE_PARAMETERS, {})
        cache = StudyCache(database)
        tasks = DesignTasks(database, cache, self._policy)
        self._designing = Designing(
            self._policy.design_workers, self._policy.design_timeout_s, tasks.task_of, tasks.keep
        )
        self._writer = writer_type(
            database,
            ResultStore(self._policy).store,
            max_queued=self._policy.max_queued_results,
            max_group=self._policy.max_results_per_commit,
            timeout_s=self._policy.commit_timeout_s,
            on_point=on_point,
        )
        self.studies = Studies(database, cache, box, self._policy)
        self.suggestions = Suggestions(database, cache, box, self._policy, self._designing.want)
        self.jobs = Jobs(database, self._policy)
        self.ledger = Ledger(database, cache, self.studies, self._writer, self._policy)
        self.recommendations = Recommendations(database)
        self.tokens = Tokens(database)
        self.token_results = TokenResults(database, self._policy)
        self.archive = Archive(database, cache, box, self._policy)
        self.retention = Retention(database, self._policy)
        self.events = Events(database)
        self.page_sessions = PageSessions(database, self._policy)

    def migrate(self) -> bool:
        """Bring the schema up to date and, if it was not, derive the derived rows; tells whether anything changed.

        Raises:
            SchemaError: If a newer program wrote the database.
            StoreUnavailable: If the database does not answer.
        """
        return migrate(self._database, derive=lambda connection: rebuild_all(connection, self._policy.max_speedup))

    def start(self) -> None:
        """Begin to write and to design."""
        self._writer.start()
        self._designing.start()

    def close(self) -> None:
        """Finish accepted work, end threads and processes, close connections."""
        self._writer.close()
        self._designing.close()
        self._readiness.close()
        self._database.close()

    def check_ready(self) -> None:
        """Return if a result would be stored now, and found after a restart.

        Raises:
            ServiceError: If it would not; it says why.
        """
        self._readiness.check()

    def is_ready(self) -> bool:
        """Tell whether a result would be stored now, and found after a restart."""
        try:
            self.check_ready()
        except ServiceError:
            return False
        return True

    def process_ids(self) -> tuple[int, ...]:
        """Return the numbers of the processes that design."""
        return self._designing.process_ids()

    def load(self) -> Load:
        """Return the load; raises StoreUnavailable if the database does not answer."""
        leases, suggestions = self.suggestions.live()
        alive, designs, design_s = self._designing.figures()
        return Load(
            queued_results=self._writer.queued,
            live_leases=leases,
            queued_suggestions=suggestions,
            connections=self._database.connections_in_use(),
            design_workers=alive,
            designs=designs,
            design_s=design_s,
            page_sessions=self.page_sessions.count(),
        )
