# SPDX-License-Identifier: Apache-2.0
"""Addresses: their spelling, and the error where one cannot be listened on."""

import os
import re
import socket
from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import Address, bound_address, connect, listen
from ringtune.meeting.rendezvous.channel import Deadline


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:@job-1.x", Address("unix", "job-1.x")),
        ("tcp://10.77.0.1:5000", Address("tcp", "10.77.0.1", 5000)),
        ("tcp://node-3.example:65535", Address("tcp", "node-3.example", 65535)),
        ("tcp://[fe80::1]:80", Address("tcp", "fe80::1", 80)),
        ("book://h:1", Address("book", "h", 1)),
    ],
)
def test_an_address_is_read_and_written_alike(text: str, address: Address) -> None:
    """An address is read back from its own text."""
    assert address == Address.parse(text)
    assert text == str(address)


@pytest.mark.parametrize(
    "text",
    [
        *("", "unix:job", "unix:@", "unix:@a b", "unix:@é", "unix:@" + "x" * 91, "tcp://h", "tcp://h:0", "tcp://:5"),
        *("tcp://h:65536", "tcp://h:5/x", "tcp://[h]:5", "tcp://h h:5", "tcp://h:٣", "tcp://h:5\n"),
        *("http://h:5", "book://h:x"),
    ],
)
def test_anything_else_is_no_address(text: str) -> None:
    """A malformed address is an error that quotes it."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Address.parse(text)


@pytest.mark.parametrize("address", [Address.fresh_unix(), Address("tcp", "127.0.0.1"), Address("tcp", "localhost")])
def test_who_listens_is_met_at_the_bound_address(address: Address) -> None:
    """A port that the kernel chose is in it."""
    with listen(address) as listener:
        bound = bound_address(listener)

        with connect(bound, Deadline.after(60)) as connection:
            assert not connection.getblocking()

    assert (bound.port > 0) == (address.scheme == "tcp")


def test_only_the_named_interface_is_bound() -> None:
    """The host's other addresses have no listener."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        elsewhere = Address("tcp", "127.0.0.2", bound_address(listener).port)

        with pytest.raises(ConnectionRefusedError):
            connect(elsewhere, Deadline.after(60))


def test_a_port_in_use_is_an_error_that_names_who_has_it() -> None:
    """Address, port, process and command are in the text."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        address = bound_address(listener)

        with pytest.raises(ConfigError) as caught:
            listen(address)

    assert f"127.0.0.1:{address.port}" in str(caught.value)
    assert f"by pid {os.getpid()} (" in str(caught.value)


def test_a_name_in_use_is_an_error() -> None:
    """Rank 0 started twice is pointed out."""
    address = Address.fresh_unix()

    with listen(address), pytest.raises(ConfigError, match="another process has it; is rank 0 started twice"):
        listen(address)


@pytest.mark.parametrize(
    ("host", "words"), [("192.0.2.7", "no interface of this host has that address"), ("no.such.host.invalid", "tcp://")]
)
def test_another_hosts_address_cannot_be_listened_on(host: str, words: str) -> None:
    """Rank 0 on the wrong host is told so."""
    with pytest.raises(ConfigError, match=words):
        listen(Address("tcp", host, 40_000))


def test_a_name_that_becomes_known_is_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new container's own name is unknown to its cluster for a moment."""
    known, answers = socket.getaddrinfo, [False, False, True]

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if not answers.pop(0):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with listen(Address("tcp", "job-0.job"), Deadline.after(60)) as listener:
        assert "127.0.0.1" == bound_address(listener).host

    answers.append(False)
    with pytest.raises(ConfigError, match=r"cannot listen on tcp://job-0\.job:0: .*Name or service not known"):
        listen(Address("tcp", "job-0.job"), Deadline.after(0))


def test_a_port_can_be_listened_on_again_at_once() -> None:
    """Connections of an earlier job that linger on the port do not block it."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        address = bound_address(listener)
        caller = connect(address, Deadline.after(60))
        callee, _ = listener.accept()
        callee.close()  # the side that closes first lingers
        caller.close()

    with listen(address) as again:
        assert address == bound_address(again)


def test_a_socket_that_calls_itself_is_not_a_peer() -> None:
    """A free port that the kernel gives to the very socket that calls it counts as refused."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    with pytest.raises(ConnectionRefusedError):
        connect(Address("tcp", "127.0.0.1", port), Deadline.after(60))
