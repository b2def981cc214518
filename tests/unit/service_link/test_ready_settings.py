# SPDX-License-Identifier: Apache-2.0
"""Tests of settings to paste: the engines read back the config, and no foreign text comes into a shell."""

import shlex
from typing import Any

import pytest

from ringtune.client import Evidence, Recommendation, ServiceReplyError
from ringtune.commands.ready_settings import (
    advice_text,
    checked_config,
    engine_variables,
    file_text,
    horovod_variables,
    pasted_config,
    shell_text,
)
from ringtune.errors import ConfigError
from ringtune.settings.settings import Settings
from ringtune.shared_service.advice.wording import evidence_text
from ringtune.shared_service.rest_models import StudyKey
from ringtune.system.printable import printable
from ringtune.tuner import Config, default_config

CHOSEN = default_config().replace(
    {"fusion_bytes": 1 << 20, "cycle_ms": 0.123456, "response_cache": False, "chunk_bytes": 65536}
)


def offer(config: Any = CHOSEN, *, target: str = "ringtune", is_prior: bool = False) -> Recommendation:
    """Return a recommendation."""
    evidence = Evidence(trials=9, jobs=3, adopted=2, speedup=0.3, ci_low=0.2, ci_high=0.4, age_s=86_400.0)
    standing = "prior" if is_prior else "confirmed"
    return Recommendation(
        config=dict(config), source="exact", target=target, is_prior=is_prior, standing=standing, evidence=evidence
    )


def with_evidence(**fields: Any) -> Recommendation:
    """Return a recommendation whose evidence has these fields, however a service could send them."""
    return offer().model_copy(update={"evidence": offer().evidence.model_copy(update=fields)})


def test_the_engine_reads_back_what_was_recommended() -> None:
    """Every knob, to the last digit."""
    settings = Settings.from_environment(engine_variables(CHOSEN, "ringtune"))

    assert CHOSEN == settings.baseline


def test_horovod_s_variables_mean_the_same_in_both_engines() -> None:
    """Horovod's variables mean the same in both engines, as far as Horovod has such knobs."""
    settings = Settings.from_environment(horovod_variables(CHOSEN, "ringtune"))

    assert CHOSEN.replace({"chunk_bytes": "auto"}) == settings.baseline


def test_a_config_of_another_engine_is_written_in_its_own_words() -> None:
    """A config is never written in the words of a third engine."""
    config = Config({"fusion_bytes": 1 << 20, "cycle_ms": 2.0, "cache_capacity": 16})
    whole = config.replace({"hierarchical_allreduce": "on", "hierarchical_allgather": "default"})

    variables = horovod_variables(whole, "horovod")

    assert "1" == variables["HOROVOD_HIERARCHICAL_ALLREDUCE"]
    assert "HOROVOD_HIERARCHICAL_ALLGATHER" not in variables
    with pytest.raises(ConfigError, match="nccl"):
        horovod_variables(whole, "nccl")
    with pytest.raises(ConfigError, match="torch-ddp"):
        engine_variables(whole, "torch-ddp")


def test_a_config_that_is_older_than_a_knob_is_taken_with_its_default() -> None:
    """An older config gets the default of a newer knob; a setting in a file is named where variables are printed."""
    older = {"algorithm": "ring", "protocol": "ll", "channels": 8}

    config = checked_config(offer(older, target="nccl"), ())

    assert "default" == config["allgather_protocol"]
    assert {"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "8"} == engine_variables(config, "nccl")
    assert "Without algorithm, protocol, which take a file: ringtune tune writes it." == file_text(config, "nccl")
    assert "" == file_text(config.replace({"algorithm": "default", "protocol": "default"}), "nccl")
    assert "" == file_text(CHOSEN, "ringtune")


@pytest.mark.parametrize(
    ("target", "change"),
    [
        ("ringtune", {"allreduce_algorithm": "$(reboot)"}),
        ("ringtune", {"fusion_bytes": "1; reboot"}),
        ("ringtune", {"x=1; reboot": 1}),
        ("horovod", {"hierarchical_allreduce": "`reboot`"}),
    ],
)
def test_what_is_not_legal_is_not_shown(target: str, change: dict[str, Any]) -> None:
    """An illegal value may have been sent to be pasted into a shell."""
    with pytest.raises(ServiceReplyError, match="not legal"):
        checked_config(offer(target=target).model_copy(update={"config": {**CHOSEN, **change}}), ())


def test_what_a_recommendation_rests_on_is_said() -> None:
    """The target first; a prior is called one, and for Horovod ours is always one."""
    text = evidence_text(offer())

    assert text.startswith("measured on ringtune, exact, confirmed, 9 results of 3 jobs, 1 day old, +30.0 % (95 % ")
    assert "" == advice_text(offer())
    assert "prior" in advice_text(offer(is_prior=True))
    assert "measured on ringtune, exact, prior, 9 results of 3 jobs, 1 day old" == evidence_text(offer(is_prior=True))
    assert "1 result of 1 job, today" in evidence_text(with_evidence(trials=1, jobs=1, age_s=80_000.0))
    assert "not on Horovod" in advice_text(offer(), is_for_horovod=True)


def test_a_gain_over_another_baseline_is_said_to_be_one() -> None:
    """A gain over another baseline is marked as one, and text from the service stays out of a shell's comment."""
    default, other = (
        evidence_text(with_evidence(baseline=baseline))
        for baseline in (default_config().to_json(), {"fusion_bytes": "0\nreboot"})
    )

    assert "baseline" not in default
    assert "over another baseline than the default" in other
    assert "reboot" not in other


@pytest.mark.parametrize(("ranks_per_host", "is_other"), [((2, 2), False), ((2,), True)])
def test_the_default_beside_which_a_gain_is_said_is_the_layouts(
    ranks_per_host: tuple[int, ...], is_other: bool
) -> None:
    """A job between hosts of several ranks begins with the hierarchical allreduce."""
    key = StudyKey(hardware="a" * 64, model="b" * 64, layout=list(ranks_per_host))
    found = with_evidence(baseline=default_config((2, 2)).to_json()).model_copy(update={"key": key})

    assert is_other == ("another baseline" in evidence_text(found))


def test_what_is_pasted() -> None:
    """Comments, then exports."""
    assert "# a\nexport X=1\nexport Y=2" == shell_text({"X": "1", "Y": "2"}, "a", "")


@pytest.mark.parametrize(
    "foreign", ["exact\ntouch pwned\n#", "a\rtouch pwned", "a\x0btouch pwned", "a\u2028b", "$(touch pwned)"]
)
def test_every_line_is_a_comment_or_an_export(foreign: str) -> None:
    """A foreign text gets no line of its own, and a value no words that a shell would obey."""
    offer = with_evidence().model_copy(update={"source": foreign, "target": foreign})

    text = shell_text({"X": foreign, "Y": "a;b"}, evidence_text(offer), foreign)

    assert [True] * 4 == [line.startswith(("# ", "export ")) for line in text.splitlines()]
    assert [["export", f"X={printable(foreign)}"], ["export", "Y=a;b"]] == [
        shlex.split(line) for line in text.splitlines()[2:]
    ]


@pytest.mark.parametrize(
    ("standing", "adopted", "is_pasted"), [("default", 2, False), ("prior", 0, False), ("prior", 1, True)]
)
def test_only_what_a_paired_test_adopted_is_pasted(standing: str, adopted: int, *, is_pasted: bool) -> None:
    """Not the default, which is in force without it, and no window, whatever a service calls it."""
    found = with_evidence(adopted=adopted).model_copy(update={"standing": standing})

    assert (CHOSEN if is_pasted else Config({})) == pasted_config(found, CHOSEN)
