"""`headway watch` on the hubs of eventlet and gevent that have timers only: a listener is no condition of a lap."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from provision.locked_environment import locked_python
from test_watch_services import APPLICATION, ROOT, started, told

from headway.lab import discover, select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

EVENTLET = """
import eventlet
eventlet.monkey_patch()
import time
from app import computes
while True:
    time.sleep(0.2)
    eventlet.spawn(computes).wait()
"""
GEVENT = """
from gevent import monkey, spawn
monkey.patch_all()
import time
from app import computes
while True:
    time.sleep(0.2)
    spawn(computes).join()
"""
HUBS = {
    "epolls": (EVENTLET, {"EVENTLET_HUB": "epolls"}),
    "poll": (EVENTLET, {"EVENTLET_HUB": "poll"}),
    "selects": (EVENTLET, {"EVENTLET_HUB": "selects"}),
    "asyncio": (EVENTLET, {"EVENTLET_HUB": "asyncio"}),
    "gevent": (GEVENT, {}),
}


@pytest.mark.parametrize("hub", HUBS)
def test_a_hub_of_timers_only(tmp_path, monkeypatch, hub):
    """A greenlet that computes stalls the hub; a hub that sleeps until its next timer is due is not told."""
    python = locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")
    headway = str(Path(sys.executable).with_name("headway"))
    program, variables = HUBS[hub]
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APPLICATION)
    Path("timers.py").write_text(program)
    with started([headway, "watch", python, "timers.py"], PYTHONPATH=os.getcwd(), **variables):
        told("event loop", "own code", "computes", again=lambda: time.sleep(0.05))

    rows = [json.loads(line) for log in Path("stalls").glob("*.stalls.jsonl") for line in log.read_text().splitlines()]
    places = [part["place"]["function"] for row in rows for part in row["parts"] if part["place"]]
    assert not any(place.endswith((".wait", ".run", ".select")) for place in places), places
