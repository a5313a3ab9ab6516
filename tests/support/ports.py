"""Ports for servers that a test starts: they stay free until the server has them."""

import contextlib
import os
import random
import socket
from pathlib import Path

_FIRST = 20_000
"""Ray gives ports from 10002 to 19999 to its workers."""
_WORKERS = 64
"""The most processes of one test session."""


def free_ports(count, host="127.0.0.1"):
    """Return different ports of a host that stay free until a test's server takes them, perhaps a minute later.

    The system gives ports of its own range to servers and clients of other tests meanwhile, so these are below that range.
    The processes of one test session have different ones.
    """
    first_of_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    # Where the system's range begins so low, there is no room below it.
    end = first_of_system if first_of_system > _FIRST + 100 * _WORKERS else 1 << 16
    candidates = range(_FIRST + worker % _WORKERS, end, _WORKERS)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = []
    for port in random.sample(candidates, len(candidates)):
        if len(found) == count:
            break
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family):
            found.append(port)
    assert len(found) == count, f"no {count} free ports of {candidates}"
    return found


def free_port(host="127.0.0.1"):
    """Return one such port."""
    return free_ports(1, host)[0]
