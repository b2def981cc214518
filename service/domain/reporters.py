# SPDX-License-Identifier: Apache-2.0
"""Reporters: the unit in which independent evidence is counted.

| a row came | its reporter |
|---|---|
| with a token | the token, whatever the number of its jobs |
| with a token that an operator declared to stand for many independent jobs | the job |
| while the service was open (loopback, no token): jobs are trusted there | the job |
| before tokens were kept with rows, where tokens existed | all such rows together |
"""

UNRECORDED = "unrecorded"
"""Stands for the token of rows that are older than the record of tokens."""
OF_TOKEN, OF_JOB = "token:", "job:"


def reporter_of(token_id: str | None, job_id: str, *, has_many_jobs: bool) -> str:
    """Return the name under which a job's evidence counts.

    Args:
        token_id: The token that the job's rows came with; None: without one.
        job_id: The job.
        has_many_jobs: Whether an operator declared that the token stands for many independent jobs.
    """
    is_job = token_id is None or has_many_jobs
    return f"{OF_JOB}{job_id}" if is_job else f"{OF_TOKEN}{token_id}"


def is_trusted_job(reporter: str) -> bool:
    """Tell whether a reporter is a job that counts by itself, not a token."""
    return reporter.startswith(OF_JOB)
