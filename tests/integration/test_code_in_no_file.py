"""Headway's code in a program is in no file, so that `coverage` and its like count none of it."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from attached import Attached
from real_programs import FOUND, LIMIT_S, bare

from headway.agent import AGENT_PATH, STARTUP_PATH
from headway.live.attach import look_at

HEADWAY = str(Path(sys.executable).with_name("headway"))
SOME = [one for one in FOUND if one.name in ("3.8", "3.11", "3.13", "3.13t", "3.14", "3.15")]
STUB = f"{STARTUP_PATH}/sitecustomize.py"
"""The one module that CPython itself imports; all of its lines run."""

SPY = """
import sys, threading
names, files = set(), set()

def traces(frame, event, argument):
    names.add(frame.f_code.co_filename)
    files.add(str(frame.f_globals.get("__file__")))

sys.settrace(traces)
threading.settrace(traces)
if sys.version_info >= (3, 12):
    sys.monitoring.use_tool_id(3, "spy")
    sys.monitoring.register_callback(3, sys.monitoring.events.PY_START, lambda code, _: names.add(code.co_filename))
    sys.monitoring.set_events(3, sys.monitoring.events.PY_START)
"""
PROGRAM = """
import json, select, sys, threading
import spy

importers = set(sys.path_importer_cache)
print("ready", flush=True)
while not select.select([0], [], [], 0.01)[0]:
    pass
one = threading.Thread(target=int)
one.start()
one.name = "renamed"
one.join()
sys.settrace(None)
files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
importers = sorted(set(sys.path_importer_cache) - importers)
print(json.dumps({"names": sorted(spy.names), "files": sorted(map(str, {*spy.files, *files})), "importers": importers}))
"""

pytestmark = [pytest.mark.slow, pytest.mark.matrix("interpreter")]


@pytest.fixture(name="program")
def written(tmp_path):
    """The program, beside the module that sees all frames."""
    (tmp_path / "spy.py").write_text(SPY)
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path / "program.py"


def of_ours(names):
    """Return the names that lead to files of Headway's agent."""
    return {name for name in names if name.startswith(str(AGENT_PATH))}


@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_launched_program_has_no_file_of_ours(interpreter, program, tmp_path):
    """No frame and no module has a file of ours but one, even if a tool looks before Headway starts, as by a `.pth`."""
    environment = bare(PYTHONUSERBASE=str(tmp_path / "user"))
    command = [str(interpreter.executable), "-m", "site", "--user-site"]
    site = Path(subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip())
    site.mkdir(parents=True)
    (site / "spy.pth").write_text(f"import sys; sys.path.append({str(tmp_path)!r}); import spy\n")

    done = subprocess.run(
        [HEADWAY, "trace", "--no-summary", "-o", str(tmp_path / "x.hwt"), "--", *command[:1], str(program)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )

    seen = json.loads(done.stdout.splitlines()[-1])
    assert of_ours(seen["names"] + seen["files"]) == {STUB}
    assert {"<headway>/startup/start.py", "<headway>/headway_agent/recorder.py"} <= set(seen["names"])


@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_an_attached_program_has_no_file_of_ours(interpreter, program, tmp_path):
    """No frame and no module has a file of ours, and sys.path_importer_cache no entry, after attaching and detaching."""
    command = [str(interpreter.executable), str(program)]
    with subprocess.Popen(command, env=bare(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with contextlib.closing(Attached(look_at(process.pid), tmp_path / "x.hwt", patience_s=LIMIT_S)):
            said, _ = process.communicate(timeout=LIMIT_S)

    seen = json.loads(said)
    assert of_ours(seen["names"] + seen["files"] + seen["importers"]) == set()
    assert "<headway>/headway_agent/recorder.py" in seen["names"]


FAILING = """
import sys, traceback
given = {}
with open(sys.argv[1] + "/startup/bring.py") as file:
    exec(file.read(), given)
[recorder] = given["bring"](sys.argv[1], "recorder")
try:
    recorder.Recorder("/nowhere.so")
except recorder.UnfitError:
    traceback.print_exc(file=sys.stdout)
"""


@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_traceback_shows_our_lines(interpreter):
    """Python finds the source of such code by the module's loader."""
    command = [str(interpreter.executable), "-c", FAILING, str(AGENT_PATH)]
    said = subprocess.run(command, env=bare(), capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    assert re.search(r'File "<headway>/headway_agent/library.py", line \d+, in load\n +raise UnfitError\(', said)


FINDERS = """
import json, sys
changes, sought = [], []

class Finders(list):
    def changed(self, *arguments):
        changes.append(repr(arguments))
    insert = append = extend = remove = pop = clear = __setitem__ = __delitem__ = __iadd__ = reverse = sort = changed

class Spy:
    def find_spec(name, path=None, target=None):
        sought.append(name)
        if sys.meta_path is not finders:
            changes.append(name)

finders = sys.meta_path = Finders([Spy, *sys.meta_path])
given = {}
with open(sys.argv[1] + "/startup/bring.py") as file:
    exec(file.read(), given)
given["bring"](sys.argv[1], *sys.argv[2:])
from headway_agent import library
import textwrap
ours = [name for name in sought if name.startswith("headway_agent")]
print(json.dumps({"changes": changes, "ours": ours, "has_looked": "textwrap" in sought, "same": sys.meta_path is finders}))
"""


@pytest.mark.parametrize("name", ["recorder", "scheduler"])
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_no_finder_is_needed(interpreter, name):
    """The program's list of finders stays as it is: a thread that goes through it just then finds its own modules."""
    command = [str(interpreter.executable), "-c", FINDERS, str(AGENT_PATH), name]
    said = subprocess.run(command, env=bare(), capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout

    assert json.loads(said) == {"changes": [], "ours": [], "has_looked": True, "same": True}
