"""The code that runs inside a measured interpreter, and the paths to it.

`headway_agent/` below this folder is a separate package: CPython 3.8 to 3.15, standard library only, no import of
anything else in headway. A launch puts *this* folder, and nothing else of headway, on the measured interpreter's
`PYTHONPATH`. Therefore neither headway's modules nor the controller's dependencies can shadow the measured ones.
"""

from pathlib import Path

__all__ = ["AGENT_PATH", "BOOTSTRAP", "EXAMINE_BOOTSTRAP", "STARTUP_PATH"]

AGENT_PATH = Path(__file__).resolve().parent
"""The folder to put on the measured interpreter's `PYTHONPATH`."""

STARTUP_PATH = AGENT_PATH / "startup.zip"
"""The archive whose `sitecustomize` starts the recorder, in each process that has it on its `PYTHONPATH`."""

BOOTSTRAP = "from headway_agent.worker import main; main()"
"""The `-c` program of a launch. It is no file, so a spawned child does not run it a second time as `__mp_main__`."""

EXAMINE_BOOTSTRAP = "from headway_agent.strangers.examine import main; main()"
"""The `-c` program that asks cheap questions about a user's function."""
