"""`headway watch` and a lap, or a request, whose events do not fit into the memory for them."""

import json
import subprocess
import sys
from pathlib import Path

from headway.live.untold import wait_until_told

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150  # see tests/support/real_programs.py

PROGRAM = """
import asyncio, os, time

async def main():
    for _ in range(3):
        await asyncio.sleep(0.3)  # the watcher learns that this is a loop
    begun = time.monotonic_ns()
    for _ in range(800_000):
        os.stat("/")
    print(begun)
    await asyncio.sleep(1)

asyncio.run(main())
"""


def test_a_lap_with_more_events_than_there_is_room_for_is_told(tmp_path):
    """The lap has its whole length, and the line says that the events of its begin were overwritten."""
    (tmp_path / "app.py").write_text(PROGRAM)
    command = [HEADWAY, "watch", "-o", "out", "--ring", "1MB", "app.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert wait_until_told(tmp_path / "out", LIMIT_S)
    rows = [json.loads(line) for line in (tmp_path / "out/app.stalls.jsonl").read_text().splitlines()]

    # On a busy machine, other laps may be long, and their events overwritten, too.
    over = [row for row in rows if row["kind"] == "event loop" and not row["goes_on"]]
    told = [row for row in over if row["since_ns"] <= int(done.stdout) < row["since_ns"] + 1e9 * row["length_s"]]
    assert len(told) == 1, (rows, done.stderr)
    assert 0 < told[0]["lost_s"] < told[0]["length_s"]
    assert "were overwritten" in told[0]["line"]


SERVER = """
import os, socketserver, threading, time, urllib.request
from wsgiref.simple_server import WSGIServer, make_server

class Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

def scan():
    while True:
        os.stat("/")

def answer(environment, start):
    time.sleep(1.5)
    start("200 OK", [])
    return [b""]

threading.Thread(target=scan, daemon=True).start()
server = make_server("127.0.0.1", 0, answer, server_class=Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
before = threading.active_count()
for _ in range(2):
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
    while threading.active_count() > before:  # the answer is there before the request's thread has ended
        time.sleep(0.001)
"""


def test_a_request_beside_a_thread_with_many_events_is_told(tmp_path):
    """The other thread overwrites the request's events, and its call is known all the same."""
    (tmp_path / "app.py").write_text(SERVER)
    command = [HEADWAY, "watch", "-o", "out", "--ring", "1MB", "--requests-over", "500ms", "app.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert wait_until_told(tmp_path / "out", LIMIT_S)
    rows = [json.loads(line) for line in (tmp_path / "out/app.stalls.jsonl").read_text().splitlines()]

    over = [row for row in rows if row["kind"] == "request" and not row["goes_on"]]
    told = [{name: row[name] for name in ("kind", "serial", "goes_on", "length_s", "line")} for row in rows]
    assert len({row["serial"] for row in over}) == 2, told
    for row in over:
        assert (row["cause"], row["length_s"] >= 1.5) == ("blocking call", True), row
        assert "answer" in row["line"]
