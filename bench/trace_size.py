"""Measure how large the trace of a program is, for each million GIL round trips.

Each launch is a fresh process of a program under `headway trace`, placed by the system. A round trip is a release of the
GIL and the acquire after it. The size is what the file occupies on its disk. The peer is the size of the same events at
16 bytes each, as they are in the memory of the process. The figure is the median of the launches, with the least and the
largest.

Target: 8 MB for each million round trips of the programs that do little else than give the GIL away. The others are
reported. Exit status: 1 if the median of one of those programs is above it.

    python bench/trace_size.py [--launches 5] [--program NAME ...] [--json]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headway.traces.model import Kind
from headway.traces.reader import read

TARGET_MB = 8.0
EVENT_BYTES = 16
PATIENCE_S = 120
PROGRAMS = {
    "read": """
import os
file = os.open(os.devnull, os.O_RDONLY)
for _ in range(1_000_000):
    os.read(file, 0)
""",
    "sqlite": """
import sqlite3
database = sqlite3.connect(":memory:")
database.execute("create table numbers (n integer)")
database.executemany("insert into numbers values (?)", ((n,) for n in range(200_000)))
for _ in range(3):
    for _ in database.execute("select n from numbers where n % 2"):
        pass
""",
    "files": """
import os, sys
for _ in range(5):
    for folder, _, names in os.walk(os.path.dirname(os.__file__)):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                while file.read(4096):
                    pass
""",
    "echo": """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
def serve(connection):
    with connection:
        while data := connection.recv(4096):
            connection.sendall(data)
def call():
    with socket.create_connection(listener.getsockname()) as client:
        for _ in range(20_000):
            client.sendall(b"x" * 64)
            client.recv(4096)
clients = [threading.Thread(target=call, name=f"client-{i}") for i in range(4)]
for client in clients:
    client.start()
servers = [threading.Thread(target=serve, args=listener.accept()[:1], name=f"server-{i}") for i in range(4)]
for server in servers:
    server.start()
for thread in clients + servers:
    thread.join()
""",
    "pool": """
import os
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    for _ in range(50):
        for _ in pool.map(os.stat, ["/"] * 2000):
            pass
""",
    "sleepers": """
import threading, time
def work():
    for _ in range(2000):
        time.sleep(0.001)
threads = [threading.Thread(target=work) for _ in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""",
}
"""Name -> source."""
JUDGED = ("read", "sqlite", "files", "pool")


def measured(name: str, folder: Path) -> tuple[float, float, float]:
    """Run a program once; return megabytes for each million round trips, those of its peer, and the round trips in millions."""
    script, path = folder / f"{name}.py", folder / f"{name}.hwt"
    script.write_text(PROGRAMS[name])
    command = [sys.executable, "-m", "headway", "trace", "-o", str(path), str(script)]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    until_s = time.monotonic() + PATIENCE_S
    while not (trace := read(path)).process.ended:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{path} is not complete after {PATIENCE_S} s")
        time.sleep(0.05)
    if not trace.loss.whole:
        raise RuntimeError(f"events of {name} are missing: {trace.loss}")
    size = path.stat().st_blocks * 512
    path.unlink()
    trips = int((trace.events["kind"] == Kind.RELEASE).sum())
    # Of a hold that is one event in the memory, the reader makes two. The rest is nearly all events of their own.
    acquires = trace.events["kind"] == Kind.ACQUIRE
    events = len(trace.events) - int(acquires.sum())
    return size / trips, events * EVENT_BYTES / trips, trips / 1e6


def main() -> int:
    """Measure all programs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--program", action="append", choices=sorted(PROGRAMS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.program or PROGRAMS:
            print(name, file=sys.stderr)
            launches = [measured(name, Path(folder)) for _ in range(arguments.launches)]
            sizes = [one[0] for one in launches]
            found[name] = {
                "mb_per_million": statistics.median(sizes),
                "least": min(sizes),
                "largest": max(sizes),
                "peer_mb_per_million": statistics.median(one[1] for one in launches),
                "million_round_trips": statistics.median(one[2] for one in launches),
            }
    if arguments.json:
        print(json.dumps(found))
    else:
        print("program   round trips  MB a million         at 16 bytes an event")
        for name, one in found.items():
            print(
                f"{name:<9} {one['million_round_trips']:8.2f} M  {one['mb_per_million']:5.1f}"
                f" [{one['least']:.1f}, {one['largest']:.1f}]  {one['peer_mb_per_million']:10.1f}"
            )
    return int(any(found[name]["mb_per_million"] > TARGET_MB for name in JUDGED if name in found))


if __name__ == "__main__":
    sys.exit(main())
