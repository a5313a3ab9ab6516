"""The agent's concurrency models: what their start contains."""

import subprocess
import sys

import pytest

from headway.agent import AGENT_PATH

STARTS = """
import sys
sys.path.insert(0, sys.argv[1])
from headway_agent.model import open_model
model = open_model(sys.argv[2], 2)
before = set(sys.modules)
model.start()
print(sorted(name for name in sys.modules.keys() - before if not name.startswith("encodings")))
model.close()
"""


@pytest.mark.parametrize("model", ["threads", "asyncio", "asyncio-threads"])
def test_a_start_imports_nothing(model):
    """A program imports its pool once, however often it starts one: the time of a start is that of each start."""
    command = [sys.executable, "-I", "-c", STARTS, str(AGENT_PATH), model]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
