"""The address that a watcher serves."""

import http.client
import socket
import struct
import threading
from types import SimpleNamespace
from typing import cast

import pytest
from ports import free_port
from waiting import wait_for

from headway.errors import UsageError
from headway.live.exposition import Totals
from headway.live.served import serve
from headway.live.watcher import Watcher
from headway.live.watching import check_address

LIMIT_S = 60


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")],
    ids=["IPv4", "IPv6"],
)
def test_an_address_is_served(family, host):
    """An address of either family is accepted, and answers."""
    try:
        socket.create_server((host, 0), family=family).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    port = free_port(host)
    address = check_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    serve(cast("Watcher", None), address)

    connection = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
    connection.request("GET", "/nothing")
    assert connection.getresponse().status == 404
    connection.close()


def test_clients_with_bad_manners_change_nothing(capfd):
    """A client that hangs up leaves no word on the service's stderr, and a query in a path is passed over."""
    watcher = cast("Watcher", SimpleNamespace(totals=Totals))
    port = free_port()
    serve(watcher, f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port)) as rude:
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # the end is a reset
        rude.sendall(b"GET /metrics HTTP/1.1\r\n")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    connection.request("GET", "/metrics?name=headway_watched_processes")
    answer = connection.getresponse()
    assert (answer.status, b"headway_watched_processes 0" in answer.read()) == (200, True)
    connection.close()

    # The handlers' threads end later than their connections.
    wait_for(lambda: not any("process_request_thread" in one.name for one in threading.enumerate()))
    assert capfd.readouterr().err == ""


def test_no_name_is_asked_for(monkeypatch):
    """The server starts without the resolver, which may be slow or gone."""

    def resolver(*_):
        raise AssertionError("the resolver was asked")

    monkeypatch.setattr(socket, "getfqdn", resolver)
    port = free_port()
    serve(cast("Watcher", None), f"127.0.0.1:{port}")


def test_an_address_of_another_process_is_served_after_it():
    """The watcher says that the address is taken, goes on, and serves it once it is free."""
    said: list[str] = []
    watcher = cast("Watcher", SimpleNamespace(pid=7, say=said.append))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        address = check_address(f"127.0.0.1:{port}", may_be_taken=True)
        with pytest.raises(UsageError, match="cannot be served"):
            check_address(address)
        serve(watcher, address)

    def answers():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        try:
            connection.request("GET", "/nothing")
            return connection.getresponse().status
        except ConnectionRefusedError:
            return None
        finally:
            connection.close()

    assert wait_for(answers) == 404
    (line,) = said
    assert f"{address} is not served for process 7" in line
