# SPDX-License-Identifier: Apache-2.0
"""The name under which all ranks of a job are found."""

from ringtune.metrics.exporter import JOB_NAME_DIGITS, job_name


def test_all_ranks_of_a_job_have_one_name_that_does_not_show_its_key() -> None:
    """The key gives the name; another key gives another."""
    key = bytes(range(32))

    assert job_name(key) == job_name(key)
    assert job_name(key) != job_name(key[::-1])
    assert JOB_NAME_DIGITS == len(job_name(key))
    assert job_name(key) not in key.hex()


def test_jobs_of_one_rank_have_names_of_their_own() -> None:
    """Jobs of one rank have no key, and get names of their own."""
    names = {job_name(b"") for _ in range(100)}

    assert 100 == len(names)
    assert {JOB_NAME_DIGITS} == {len(name) for name in names}
