# SPDX-License-Identifier: Apache-2.0
"""The one reader of the job's environment: `RINGTUNE_*`, `AUTOTUNE*`, and Horovod's names for the same things.

A rank's settings are a pure function of the variables *given* on it, so that rank 0 sends those and the other ranks
build the same settings from them. The variables that tell ranks apart (rank, rendezvous, job key) are read in
`bootstrap`.
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ringtune.errors import ConfigError
from ringtune.settings import horovod_names
from ringtune.settings.kubernetes_links import service_links
from ringtune.settings.variables import (
    BOOTSTRAP_NAMES,
    LAUNCH_NAMES,
    PLUGIN_NAMES,
    SERVICE_PREFIX,
    SLIPS_TOLD_NAME,
    TORCH_BACKEND_NAME,
    job_variables,
    knob_variable,
)
from ringtune.system.near_names import nearest_slip
from ringtune.tuner.policy.settings import Limits, job_limits
from ringtune.tuner.policy.unasked import UNASKED_LIMITS
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameters import AUTO, CONNECTIONS, MAX_CONNECTIONS, default_config, pinned_by_layout

SECRET_NAMES = ("AUTOTUNE_SERVICE_TOKEN",)
TUNER_NAMES = (
    "AUTOTUNE_LOG",
    "AUTOTUNE_MAX_SAMPLES",
    "AUTOTUNE_MAX_STEPS",
    "AUTOTUNE_MAX_SECONDS",
    "AUTOTUNE_WARMUP_STEPS",
    "AUTOTUNE_STEPS_PER_SAMPLE",
)
"""Variables that ask for tuning, and have no effect without a tuner."""
DECIDED_BY_LAYOUT = "decided by the layout"


@dataclass(frozen=True)
class Settings:
    """Validated settings of a job.

    Attributes:
        given: Values of the variables that were set, by variable name; JSON values.
        autotune: Whether the tuner runs.
        autotune_log: Path of the tuning log, or None.
        autotune_model: A name for people, or None.
        job_name: A name for people, or None.
        tags: For people.
        commit: Commit of the job's code, or None for "find it".
        autotune_cache: Path of the file of this machine's studies, `0` for none, or None for the user's own.
        autotune_lock: Path of the file that jobs of a host lock to take turns at tuning, `0` for none, or None for the
            user's own.
        service_url: Address of the shared service, or None.
        service_token: API token for it, or None.
        limits: Samples that the search may take, and steps of the job and seconds within which the tuner decides.
        warmup_steps: Steps before the first window, or None for "until step times are stable".
        steps_per_sample: Steps in a window, or None for "by the step time".
        allowed: Knobs that the tuner varies although they cost exactness.
        seed: Seed of everything random in the tuner.
        log_level: `debug`, `info`, `warning` or `error`.
        transport: `auto`, `shm`, `tcp` or `mpi`.
        interfaces: Names of the network interfaces that may carry data between hosts; empty for all.
        gpu_operations: `auto`, `nccl` or `host`: how tensors of GPUs are reduced.
        timeline: Path of the trace; ranks other than 0 add their number to it; or None.
        timeline_marks_cycles: Whether that trace shows the engine's cycles.
        metrics_address: Address at which local rank 0 serves metrics, as `ListenAddress` reads it, or None.
        stall_warn_s: Seconds after which a warning names the ranks that are missed.
        timeout_s: Seconds after which the job ends.
        hardware: Overrides the hardware fingerprint, or None.
        hardware_name: People's name for the job's machines, or None.
        algorithm_table: `auto` (measured once), `default` (compiled in), or the path of a table's file.
        fixed: Knobs that the tuner leaves alone, by parameter name.
        baseline: The config that the job runs without tuning; it has the fixed values. Before the layout is known, that
            of one host; see `fitted`.
    """

    given: Mapping[str, Any] = field(repr=False)
    autotune: bool
    autotune_log: str | None
    autotune_model: str | None
    job_name: str | None
    tags: tuple[str, ...]
    commit: str | None
    autotune_cache: str | None
    autotune_lock: str | None
    service_url: str | None
    service_token: str | None = field(repr=False)
    limits: Limits
    warmup_steps: int | None
    steps_per_sample: int | None
    allowed: tuple[str, ...]
    seed: int
    log_level: str
    transport: str
    interfaces: tuple[str, ...]
    gpu_operations: str
    timeline: str | None
    timeline_marks_cycles: bool
    metrics_address: str | None
    stall_warn_s: float
    timeout_s: float
    hardware: str | None
    hardware_name: str | None
    algorithm_table: str
    fixed: Mapping[str, Value]
    baseline: Config

    @classmethod
    def from_given(cls, given: Mapping[str, Any]) -> "Settings":
        """Build the settings from validated values by variable name."""

        def value(name: str) -> Any:
            return given.get(name, _TABLE_DEFAULTS[name])

        defaults = default_config()
        fixed = {knob: given[knob_variable(knob)] for knob in defaults if knob_variable(knob) in given}
        return cls(
            given=dict(given),
            autotune=value("AUTOTUNE") is not False,
            autotune_log=value("AUTOTUNE_LOG"),
            autotune_model=value("AUTOTUNE_MODEL"),
            job_name=value("AUTOTUNE_JOB_NAME"),
            tags=tuple(value("AUTOTUNE_TAGS")),
            commit=value("AUTOTUNE_COMMIT"),
            autotune_cache=value("AUTOTUNE_CACHE"),
            autotune_lock=value("AUTOTUNE_LOCK"),
            service_url=value("AUTOTUNE_SERVICE_URL"),
            service_token=value("AUTOTUNE_SERVICE_TOKEN"),
            limits=_limits(given),
            warmup_steps=value("AUTOTUNE_WARMUP_STEPS"),
            steps_per_sample=value("AUTOTUNE_STEPS_PER_SAMPLE"),
            allowed=tuple(value("AUTOTUNE_ALLOW")),
            seed=value("AUTOTUNE_SEED"),
            log_level=value("RINGTUNE_LOG_LEVEL"),
            transport=value("RINGTUNE_TRANSPORT"),
            interfaces=tuple(value("RINGTUNE_INTERFACES")),
            gpu_operations=value("RINGTUNE_GPU_OPERATIONS"),
            timeline=value("RINGTUNE_TIMELINE"),
            timeline_marks_cycles=value("RINGTUNE_TIMELINE_MARK_CYCLES"),
            metrics_address=value("RINGTUNE_METRICS_PORT"),
            stall_warn_s=value("RINGTUNE_STALL_WARN_S"),
            timeout_s=value("RINGTUNE_TIMEOUT_S"),
            hardware=value("RINGTUNE_HARDWARE"),
            hardware_name=value("RINGTUNE_HARDWARE_NAME"),
            algorithm_table=value("RINGTUNE_ALGORITHM_TABLE"),
            fixed=fixed,
            baseline=defaults.replace({**(value("AUTOTUNE_BASELINE") or {}), **fixed}),
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], algorithms: Collection[str] = ()) -> "Settings":
        """Read and validate every job-wide variable.

        Args:
            environ: The environment.
            algorithms: Names in the engine's allreduce registry, without `auto`.

        Raises:
            ConfigError: If a value is malformed, out of range, or contradicts another; the text names the variable,
                the value and the allowed ones.
        """
        given = _read_given(environ, algorithms)
        _merge_horovod(given, environ)
        _check_together(given)
        _check_torch_loads_backends(given, environ)
        return cls.from_given(given)

    @property
    def is_unasked(self) -> bool:
        """True if the tuner runs without having been asked for, under `AUTOTUNE=auto`."""
        return self.given.get("AUTOTUNE") == AUTO

    def fitted(self, ranks_per_host: Sequence[int]) -> tuple["Settings", tuple[str, ...]]:
        """Return the settings for a layout: its defaults, without knobs that cannot act in it.

        One job runs unchanged at any size.

        Args:
            ranks_per_host: Number of ranks on each host.

        Returns:
            The settings, and notes for the user, a sentence each.
        """
        requested = {**(self.given.get("AUTOTUNE_BASELINE") or {}), **self.fixed}
        pinned = pinned_by_layout(ranks_per_host, requested.get("allreduce_algorithm", AUTO))
        if self.transport == "mpi":
            pinned[CONNECTIONS] = 1
        ignored = {knob: value for knob, value in pinned.items() if requested.get(knob, value) != value}
        notes = tuple(
            f"{knob}={requested[knob]} has no effect with {list(ranks_per_host)} ranks per host; {value} is used"
            for knob, value in ignored.items()
        )
        fixed = {knob: pinned.get(knob, value) for knob, value in self.fixed.items()}
        baseline = default_config(ranks_per_host).replace({**requested, **pinned})
        return replace(self, fixed=fixed, baseline=baseline), notes

    def connections(self) -> tuple[int, int]:
        """Return numbers of connections between two ranks: that of the job without tuning, and the most to be tried."""
        connections = int(self.baseline[CONNECTIONS])
        is_tried = self.autotune and not self.is_unasked and CONNECTIONS not in self.fixed
        return connections, MAX_CONNECTIONS if is_tried else connections

    def effective(self) -> dict[str, Any]:
        """Return every job-wide variable's value by name, defaults included.

        A default that the layout decides is a word: no value is the same as it before the ranks have met.
        """
        by_layout = {"hierarchical_allreduce": DECIDED_BY_LAYOUT}
        knobs = {knob_variable(knob): value for knob, value in {**default_config(), **by_layout}.items()}
        return {**_TABLE_DEFAULTS, **knobs, "AUTOTUNE_MAX_SECONDS": self.limits.max_seconds, **self.given}


def _limits(given: Mapping[str, Any]) -> Limits:
    limits = [given.get(f"AUTOTUNE_MAX_{unit}") for unit in ("SAMPLES", "STEPS", "SECONDS")]
    if given.get("AUTOTUNE") == AUTO and limits == [None, None, None]:
        return UNASKED_LIMITS
    return job_limits(*limits)


def find_notes(environ: Mapping[str, str], algorithms: Collection[str] = ()) -> tuple[str, ...]:
    """Return notes on variables that are set without the effect that they seem to have, a sentence each.

    Args:
        environ: The environment, valid for `Settings.from_environment`.
        algorithms: Names in the engine's allreduce registry, without `auto`.
    """
    return (*horovod_names.translate(environ).notes, *find_slips(environ, algorithms), *_notes_of_no_tuner(environ))


def _notes_of_no_tuner(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return one sentence on the tuner's variables that are set while no variable says whether the tuner runs."""
    translation = horovod_names.translate(environ)
    if "AUTOTUNE" in environ or "AUTOTUNE" in translation.values:
        return ()
    names = [translation.origins.get(name, name) for name in TUNER_NAMES if name in {*environ, *translation.values}]
    verb = "is" if len(names) == 1 else "are"
    return (f"{' and '.join(names)} {verb} set, but AUTOTUNE is not 1: nothing is tuned",) if names else ()


def find_slips(environ: Mapping[str, str], algorithms: Collection[str] = ()) -> tuple[str, ...]:
    """Return a sentence for each variable whose name is probably misspelt, with the nearest name that there is.

    Args:
        environ: The environment; slips that the launcher has told are left out.
        algorithms: Names in the engine's allreduce registry, without `auto`.
    """
    shown = environ.get(SLIPS_TOLD_NAME, "").split(",")
    return tuple(note for name, note in slips_by_name(environ, algorithms).items() if name not in shown)


def slips_by_name(environ: Mapping[str, str], algorithms: Collection[str] = ()) -> dict[str, str]:
    """Return the sentences of `find_slips` by the names of the misspelt variables; see there."""
    known = [*job_variables(algorithms), *BOOTSTRAP_NAMES, *PLUGIN_NAMES, *LAUNCH_NAMES]
    notes = {}
    for name in sorted(environ.keys() - service_links(environ) - {*known}):
        if meant := _meant(name, known):
            notes[name] = f"{name} is not a variable of ringtune; did you mean {meant}?"
        elif meant := horovod_names.misspelt(name):
            notes[name] = f"{name} is not a variable of Horovod's; did you mean {meant}?"
    return notes


def _meant(name: str, known: Sequence[str]) -> str:
    """Return the variable that an unknown name was probably meant to be; empty where it is another program's."""
    if _is_ours(name, known):
        return nearest_slip(name, known) or difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    is_others = name.startswith(("HOROVOD_", SERVICE_PREFIX))
    return "" if is_others else nearest_slip(name, known)


def _is_ours(name: str, known: Collection[str]) -> bool:
    """Tell whether a name looks like a job's; of the service's those alone that a job has under another prefix."""
    if name.startswith(SERVICE_PREFIX):
        return name.replace("RINGTUNE_", "AUTOTUNE_", 1) in known
    return name.startswith(("RINGTUNE_", "AUTOTUNE"))


def _read_given(environ: Mapping[str, str], algorithms: Collection[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    links = service_links(environ)
    for variable in job_variables(algorithms).values():
        text = environ.get(variable.name)
        if text is None or variable.name in links:
            continue
        try:
            given[variable.name] = variable.reader.parse(text)
        except ValueError as error:
            shown = "(secret)" if variable.name in SECRET_NAMES else repr(text)
            raise ConfigError(f"{variable.name}={shown} is not allowed; allowed: {variable.reader.allowed}") from error
    return given


def _merge_horovod(given: dict[str, Any], environ: Mapping[str, str]) -> None:
    """Add Horovod's spelling of a setting; where both are there they must agree."""
    translation = horovod_names.translate(environ)
    for name, value in translation.values.items():
        if given.setdefault(name, value) != value:
            raise ConfigError(
                f"{name}={given[name]!r} and {translation.origins[name]}={environ[translation.origins[name]]!r}, which "
                f"means {value!r} here, disagree; set one of them"
            )


def _check_together(given: Mapping[str, Any]) -> None:
    for knob, value in (given.get("AUTOTUNE_BASELINE") or {}).items():
        fixed = given.get(knob_variable(knob), value)
        if fixed != value:
            raise ConfigError(
                f"AUTOTUNE_BASELINE says {knob}={value!r} but {knob_variable(knob)}={fixed!r} fixes it; remove one"
            )


def _check_torch_loads_backends(given: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    if TORCH_BACKEND_NAME in given and environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "0":
        raise ConfigError(
            f"{TORCH_BACKEND_NAME}={given[TORCH_BACKEND_NAME]} acts when torch loads backends of other packages, which "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps it from; remove one"
        )


_TABLE_DEFAULTS = {name: variable.default for name, variable in job_variables(()).items()}
