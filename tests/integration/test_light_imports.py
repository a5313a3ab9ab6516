"""Parts that users wait for import nothing that they do not need: an import is most of the time of a short command."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Modules in the order of their import, each with a module that must not have come with them so far.
STEPS = (
    ("headway.cli.main", "headway.cli.lab_command"),  # after `--version`
    ("headway.live.launch", "headway.live.collect"),  # of `headway run`
    ("headway.live.stalled", "headway.traces.analysis.result"),  # the analysis of a stall
    ("headway.report.stalls", "headway.lab.design"),
    ("headway.report.trace.terminal", "headway.lab.design"),
    ("headway.cli.whatif_view", "headway.lab.design"),
)
CODE = """
import contextlib, importlib, io, json, sys
from headway.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["--version"])
came = []
for name, needless in json.loads(sys.argv[1]):
    importlib.import_module(name)
    if needless in sys.modules:
        came.append([name, needless])
print(json.dumps(came))
"""


def test_nothing_needless_is_imported():
    """Neither the version, nor `run`, the analysis of a stall and the reports of traces import what others need."""
    done = subprocess.run([sys.executable, "-c", CODE, json.dumps(STEPS)], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == []
