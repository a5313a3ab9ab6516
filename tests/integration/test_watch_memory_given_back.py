"""A process that a signal ends has run until that signal, however long the kernel takes to give back its memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150
MEMORY_MB = 768
"""The kernel takes some tenths of a second to give it back: more than the limit of a loop."""

pytestmark = [pytest.mark.slow, pytest.mark.times]

PROGRAM = f"""
import asyncio, signal

memory = bytearray({MEMORY_MB} << 20)
memory[::4096] = b"1" * (len(memory) // 4096)

async def main():
    await asyncio.sleep(0.5)  # the loop is known to be one
    signal.raise_signal(signal.SIGTERM)  # as uvicorn does after a graceful shutdown

asyncio.run(main())
"""


def test_a_loop_that_ends_its_process_by_a_signal_is_in_no_stall(tmp_path, monkeypatch):
    """Its last lap was short, and no line of it is told as a blocking call."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "HEADWAY_WATCH"))]:
        monkeypatch.delenv(name)
    Path("app.py").write_text(PROGRAM)
    command = [HEADWAY, "watch", "-o", "stalls", sys.executable, "app.py"]
    subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    subprocess.run([HEADWAY, "stalls", "stalls"], capture_output=True, timeout=LIMIT_S, check=False)  # waits for all

    (log,) = Path("stalls").glob("*.jsonl")
    assert not [line for line in log.read_text().splitlines() if json.loads(line)["cut_off"]]
