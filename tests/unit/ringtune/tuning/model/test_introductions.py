# SPDX-License-Identifier: Apache-2.0
"""Conclusions from the ranks' introductions."""

from dataclasses import replace

from ringtune.tuning.model.introductions import Company, Introduction

SAID = Introduction("a", {"cores": 2, "gpus": []}, 5, None)


def test_an_introduction_survives_the_way() -> None:
    """Text in between."""
    introduction = replace(SAID, objection="no")

    assert introduction == Introduction.from_text(introduction.to_text())


def test_equal_ranks_have_no_objection() -> None:
    """Hosts may differ."""
    assert Company([SAID, replace(SAID, host="b")]).objection("the parameters") is None


def test_any_ranks_objection_is_everybodys() -> None:
    """The objection is named with its rank, except to that rank itself."""
    assert "rank 1: no" == Company([SAID, replace(SAID, objection="no")]).objection("the parameters")
    assert "no" == Company([replace(SAID, objection="no"), SAID]).objection("the parameters")


def test_a_model_that_differs_is_an_objection() -> None:
    """The first rank that differs is named."""
    objection = Company([SAID, SAID, replace(SAID, model_digest=6)]).objection("the parameters")

    assert objection is not None
    assert "on rank 2" in objection


def test_ranks_are_counted_by_host() -> None:
    """In the order in which the hosts appear."""
    hosts = ["a", "a", "b", "a"]

    assert [3, 1] == Company([replace(SAID, host=host) for host in hosts]).ranks_per_host
