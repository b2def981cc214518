# SPDX-License-Identifier: Apache-2.0
"""Jobs with TLS between hosts: every way to start one, the bytes readable on the way, and the errors of faults."""

import re
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.integration.hosts import enter_rsh, from_host, hosts, needs_hosts
from tests.integration.jobs import PROGRAMS, launched, launched_by, program, ringtune, run_job, started, torchrun
from tests.integration.ports import free_port
from tests.integration.rendezvous_servers import joining
from tests.integration.worlds import KEY, check_places, explicit, places, run_all

APART = {"RINGTUNE_TRANSPORT": "tcp"}
"""Every rank is a host of its own."""
BY_JOB_KEY = {"RINGTUNE_TLS": "1"}
TLS = {**APART, **BY_JOB_KEY}
READABLE = "rank 1's numbers can be read on the way"
FAILED = 3
"""The exit code of a rank that has got an error."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the job's certificates."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["job key", "certificates"])
def keys(request: pytest.FixtureRequest, authority: Authority) -> dict[str, str]:
    """The variables of either kind of keys."""
    return BY_JOB_KEY if request.param == "job key" else authority.variables("rank")


def test_launched_ranks_and_their_process_sets(keys: dict[str, str]) -> None:
    """Sums are right in the world and in a set, twice, and the carrier is named."""
    finished = run_job(launched(3, "where", "2"), {**APART, **keys})

    check_places(places([finished]), (0, 1, 2), "tls")


@needs_hosts
def test_ranks_of_several_hosts_by_the_launcher(keys: dict[str, str], tmp_path: Path) -> None:
    """`ringtune run -H`: the launcher's address book has TLS, too."""
    with hosts(2) as (first, second):
        options = ["-np", "4", "-H", f"{first.address}:2,{second.address}:2", "--rsh", enter_rsh(tmp_path, second)]
        finished = run_job(from_host(first, *ringtune("run", *options, *program("where"))), keys)

    found = finished.stdout.replace("[0] ", "").replace("[1] ", "").replace("[2] ", "").replace("[3] ", "")
    assert 0 == finished.code, finished.text
    assert 4 == found.count('"carrier": "tls"'), finished.text


@needs_hosts
def test_workers_of_a_rendezvous_server(keys: dict[str, str]) -> None:
    """Places, meetings and the last word of a process at its end pass by TLS."""
    with hosts(2) as made:
        address = f"join://{made[1].address}:{free_port()}"
        server = made[1].command(*ringtune("rendezvous", "-np", "2", "--listen", address.removeprefix("join://")))
        commands = [host.command(*program("where", "2")) for host in made]
        with started(server, {"RINGTUNE_JOB_KEY": KEY, **keys}) as serving:
            found = places(run_all(commands, [joining(address, **keys)] * 2))
            finished = serving.wait()

    check_places(found, (0, 1), "tls")
    assert 0 == finished.code, finished.text


def test_an_elastic_job(tmp_path: Path) -> None:
    """Workers of the elastic launcher get their places by TLS."""
    (tmp_path / "hosts.sh").write_text("#!/bin/sh\necho localhost:2\n", encoding="utf-8")
    (tmp_path / "hosts.sh").chmod(0o755)
    options = ["--min-np", "2", "-np", "2", "--host-discovery-script", str(tmp_path / "hosts.sh")]

    finished = run_job(ringtune("run", *options, *program("where")), TLS)

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count('"carrier": "tls"'), finished.text


def test_torchruns_ranks(tmp_path: Path) -> None:
    """The place comes by torch's store, and the connections have TLS."""
    finished = run_job(torchrun(tmp_path / "python", str(PROGRAMS / "where.py")), TLS)

    check_places(places([finished]), (0, 1), "tls")


@pytest.mark.parametrize(("switch", "is_readable"), [("0", True), ("1", False)])
def test_what_can_be_read_on_the_way(switch: str, *, is_readable: bool) -> None:
    """A rank's numbers pass in clear text without TLS, and not with it."""
    command = launched_by("patient_launcher", launched(2, "tampered_wire", "0", "0", "data"))

    finished = run_job(command, {**APART, "RINGTUNE_TLS": switch})

    assert 0 == finished.code, finished.text
    assert is_readable == (READABLE in finished.stdout), finished.text


@pytest.mark.parametrize("purpose", ["control", "data"])
@pytest.mark.parametrize("seed", [1, 3, 4])
def test_changed_bytes_end_the_job(seed: int, purpose: str) -> None:
    """No changed byte is taken, in either direction: the job ends with words on every rank.

    A changed length may be waited for, up to the time limit.
    """
    command = launched_by("patient_launcher", launched(2, "tampered_wire", str(seed), "4", purpose))

    finished = run_job(command, {**TLS, "RINGTUNE_TIMEOUT_S": "20"})

    assert FAILED == finished.code, finished.text
    assert "WRONG" not in finished.stdout, finished.text
    refusal = "TLS refuses its bytes, which were changed on the way|CollectiveTimeout: .* 20.0 s"
    assert re.search(refusal, finished.stdout), finished.text
    assert 2 == len(re.findall(r"^rank \S+: [A-Za-z]+: .{20,}$", finished.stdout, re.MULTILINE)), finished.text


def test_ranks_that_differ_are_told_on_both_sides() -> None:
    """Rank 0 with TLS and rank 1 without: both values in both errors, at once."""
    address = f"tcp://127.0.0.1:{free_port()}"
    environs = [explicit(rank, 2, address, RINGTUNE_TLS=switch) for rank, switch in enumerate("10")]

    for finished in run_all([program("adds_up")] * 2, environs):
        assert "rank 1 has TLS off but rank 0 has TLS by the job key; set RINGTUNE_TLS" in finished.stderr


@pytest.mark.parametrize("value", ["yes", "tls"])
def test_a_misspelt_switch_ends_the_job_at_once(value: str) -> None:
    """All ranks name the variable, the value and the allowed ones."""
    finished = run_job(launched(2, "adds_up"), {"RINGTUNE_TLS": value})

    assert 0 != finished.code
    assert f"RINGTUNE_TLS='{value}' is not allowed; allowed: 1, 0 or auto" in finished.stderr, finished.text


def test_an_expired_certificate_is_told_by_its_rank_and_by_rank_0(authority: Authority) -> None:
    """The rank's error names the files, rank 0's the reason for which a connection was refused."""
    address = f"tcp://127.0.0.1:{free_port()}"
    certificates = [authority.variables("good"), authority.variables("expired", days=0)]
    environs = [
        explicit(rank, 2, address, **{**APART, **own, "RINGTUNE_TIMEOUT_S": "5"})
        for rank, own in enumerate(certificates)
    ]

    first, second = run_all([program("adds_up")] * 2, environs)

    assert re.search(
        r"do not agree on TLS by certificates: .*expired.*; see the files of RINGTUNE_TLS_CERT", second.text
    )
    assert re.search(r"\d connections? refused, the last one: certificate has expired", first.stderr), first.text


def test_a_machine_without_openssl_names_the_package(tmp_path: Path) -> None:
    """A libssl that cannot be loaded is reported with the reason and the package to install, on both ranks."""
    for name in ("libssl.so.3", "libssl.so.1.1"):
        (tmp_path / name).write_text("none", encoding="utf-8")
    address = f"tcp://127.0.0.1:{free_port()}"
    environs = [explicit(rank, 2, address, **TLS) for rank in range(2)]
    environs[1]["LD_LIBRARY_PATH"] = str(tmp_path)

    for finished in run_all([program("adds_up")] * 2, environs):
        assert 0 != finished.code
        words = r"TLS needs OpenSSL .*libssl\.so\.3.*; install the package libssl3"
        assert re.search(words, finished.stderr), finished.text
