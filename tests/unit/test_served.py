"""The address that a watcher serves."""

import http.client
import socket
from typing import cast

import pytest

from headway.live.served import serve
from headway.live.watcher import Watcher
from headway.live.watching import check_address


@pytest.mark.parametrize(
    ("family", "host"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")],
    ids=["IPv4", "IPv6"],
)
def test_an_address_is_served(family, host):
    """An address of either family is accepted, and answers."""
    try:
        with socket.create_server((host, 0), family=family) as free:
            port = free.getsockname()[1]
    except OSError:
        pytest.skip(f"this machine has no {host}")
    address = check_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    serve(cast("Watcher", None), address)

    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", "/nothing")
    assert connection.getresponse().status == 404
    connection.close()
