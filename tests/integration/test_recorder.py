"""The recorder in real programs on every interpreter: the program is unchanged, and the trace keeps the invariants."""

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from lifecycle_program import CASES
from real_programs import FOUND, PROGRAM, WITH_A_GIL, WITH_STACKS, ran

import headway
from headway.agent import STARTUP_PATH
from headway.live.collect import collecting
from headway.live.files import wait_until_finished
from headway.live.launch import environment
from headway.traces.family import read_family
from headway.traces.frames import CUT
from headway.traces.invariants import violations
from headway.traces.model import Kind
from headway.traces.reader import read

# The number of processes that leave a trace; more than one where a case starts children.
PROCESSES = {"fork": 11, "fork_of_a_fork": 3, "fork_storm": 41, "execute": 2, "subprocesses": 3}
# The least number: a pool ends its workers by a signal, and an idle worker may have recorded nothing.
AT_LEAST = {"pool_fork": 2, "pool_spawn": 2, "pool_forkserver": 2}

pytestmark = pytest.mark.slow


FULL = r"headway: process \d+: the memory for its events is full: some are not recorded\n"


def traced(interpreter, case, folder):
    """Run a case plainly and traced; return the traces of all its processes, and whether one said that events are lost."""
    plain = dict(os.environ)
    plain.pop("PYTHONPATH", None)
    file = folder / "x.hwt"
    command = [interpreter.executable, PROGRAM, case]
    expected = ran(command, plain, folder)

    with collecting(file) as door:
        code, output, said = ran(command, environment(door.environment(), base=plain), folder)
    # A collector that has no core for a while loses events, and the process says so.
    assert (code, output, re.sub(FULL, "", said)) == expected

    return read_family(file), said != re.sub(FULL, "", said)


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_a_program_is_as_without_the_recorder(interpreter, case, tmp_path):
    """A program that begins and ends in any way has the same output and result, and complete, sound traces."""
    traces, is_full = traced(interpreter, case, tmp_path)

    for trace in traces:
        assert violations(trace) == []
        # A forked child of a free-threaded Python may miss a wait of each thread while another thread makes its memory.
        missed = 0 if trace.process.gil_enabled or trace is traces[0] else 2 * len(trace.threads)
        assert is_full or replace(trace.loss, dropped_events=max(0, trace.loss.dropped_events - missed)).whole
    if case in AT_LEAST:
        names = {trace.process.program for trace in traces} - {Path(PROGRAM).name}
        assert names <= {f"multiprocessing.{part}" for part in ("spawn", "forkserver", "resource_tracker")}
    shares = {"interpreters": ("3.9", "3.10", "3.11"), "shared_interpreters": ("3.9", "3.10", "3.11", "3.12")}
    assert any(trace.process.has_subinterpreters for trace in traces) == (interpreter.name in shares.get(case, ()))
    if not interpreter.name.endswith("t"):
        if case in AT_LEAST:
            assert len(traces) >= AT_LEAST[case]
        else:
            assert len(traces) == PROCESSES.get(case, 1)
        assert traces[0].threads[0].name == "MainThread"
        # Only if the process had the time to write its end.
        ended = case not in ("killed", "terminated", "execute")
        assert traces[0].process.ended is ended


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_threads_have_the_names_that_python_gives_them(interpreter, tmp_path):
    """Threads have Python's names, also those that have ended, and those of forked children."""
    traces, _ = traced(interpreter, "fork_of_a_fork", tmp_path)

    assert {thread.name for thread in traces[0].threads} == {"MainThread"}
    assert {thread.name for trace in traces for thread in trace.threads} == {"MainThread", "worker 0"}


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", [one for one in WITH_STACKS if one.name >= "3.12"], ids=lambda one: one.id)
def test_each_sub_interpreter_has_a_gil_of_its_own(interpreter, tmp_path):
    """Each sub-interpreter's own GIL is told apart from 3.12 on, and its code is named."""
    (trace,), _ = traced(interpreter, "interpreters", tmp_path)

    assert [gil.main for gil in trace.gils] == [True] + [False] * (len(trace.gils) - 1)
    assert len(trace.gils) >= 4  # three at a time
    own = trace.events[(trace.events["gil"] > 0) & (trace.events["kind"] == Kind.RELEASE)]
    assert len({int(gil) for gil in own["gil"]}) == len(trace.gils) - 1


STACKS = """import threading, time
def deep(n):
    if n:
        return deep(n - 1)
    time.sleep(0.001)
class Größe:
    def messen(self):
        exec(compile("time.sleep(0.001)", "日本.py", "exec"))
def numbers():
    time.sleep(0.001)
    yield 1
list(numbers())
Größe().messen()
deep(3)
sorted([2, 1], key=lambda x: time.sleep(0.001) or x)
deep(300)
"""


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_STACKS, ids=lambda one: one.id)
def test_stacks_name_file_line_and_function(interpreter, tmp_path):
    """A release has the stack at which it happened: lines and qualified names in any script, through C and generators."""
    program, file = tmp_path / "stacks.py", tmp_path / "x.hwt"
    program.write_text(STACKS, encoding="utf-8")
    with collecting(file) as door:
        subprocess.run([interpreter.executable, program], env=environment(door.environment()), check=True, timeout=60)

    trace = read(file)

    releases = trace.events[trace.events["kind"] == Kind.RELEASE]
    stacks = [
        [(Path(frame.filename).name, frame.line, frame.function) for frame in trace.stack(int(index))]
        for index in dict.fromkeys(releases["value"].tolist())
    ]
    named = [stack for stack in stacks if stack and stack[-1][0] == "stacks.py"]
    top = ("stacks.py", 14, "<module>")
    assert [("stacks.py", 10, "numbers"), ("stacks.py", 12, "<module>")] in named
    assert [("日本.py", 1, "<module>"), ("stacks.py", 8, "Größe.messen"), ("stacks.py", 13, "<module>")] in named
    assert [("stacks.py", 5, "deep"), *[("stacks.py", 4, "deep")] * 3, top] in named
    assert [("stacks.py", 15, "<lambda>"), ("stacks.py", 15, "<module>")] in named
    # A very deep stack has the innermost frames, and a mark that there were more.
    cut = (Path(CUT.filename).name, CUT.line, CUT.function)
    assert any(len(stack) == 129 and stack[0] == ("stacks.py", 5, "deep") and stack[-1] == cut for stack in stacks)


LEAVES = """import os, subprocess, time
pid = os.fork()
begun = time.process_time()
while pid == 0 and time.process_time() - begun < 0.1:
    pass
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
try:
    subprocess.Popen(["/nothing/there"], close_fds=False)
except FileNotFoundError:
    pass
time.sleep(0.001)
"""


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
def test_a_child_that_computes_alone_is_recorded_until_it_leaves(interpreter, tmp_path):
    """A child that ends by os._exit() held the GIL until then, though nothing happened at its GIL any more.

    A program that cannot be started ends in a child of vfork(), which is no end of its parent.
    """
    program, file = tmp_path / "leaves.py", tmp_path / "x.hwt"
    program.write_text(LEAVES)
    with collecting(file) as door:
        subprocess.run([interpreter.executable, program], env=environment(door.environment()), check=True, timeout=60)

    parent, child = read_family(file)

    assert parent.process.ended
    assert child.process.ended
    assert violations(parent) == violations(child) == []
    assert child.end_ns - int(child.events["time_ns"][-1]) >= 100_000_000
    assert child.end_ns <= parent.end_ns


def test_what_cannot_be_recorded_runs_and_says_why(tmp_path):
    """A library that does not fit, a missing collector, or too little memory gives one line, and the program runs."""
    env = environment({"HEADWAY_TRACE_DOOR": str(tmp_path / "door"), "HEADWAY_TRACE_FAMILY": "1"})
    code, out, said = ran([sys.executable, "-c", "print(1)"], env | {"HEADWAY_NATIVE": "/nothing"}, tmp_path)
    assert (code, out) == (0, "1\n")
    assert re.fullmatch(r"headway: process \d+ is not traced: /nothing does not load: .*\n", said)

    code, out, said = ran([sys.executable, "-c", "print(1)"], env, tmp_path)
    assert (code, out) == (0, "1\n")
    assert re.fullmatch(r"headway: process \d+ is not traced: no collector answers at \S+door\n", said)

    code, out, said = ran([sys.executable, "-c", "print(1)"], env | {"HEADWAY_TRACE_WATCHER": "1"}, tmp_path)
    assert (code, out) == (0, "1\n")
    assert re.fullmatch(r"headway: process \d+ is not watched: no collector answers at \S+door\n", said)

    code, out, said = ran([sys.executable, "-c", "print(1)"], env | {"HEADWAY_TRACE_BYTES": str(2**70)}, tmp_path)
    assert (code, out) == (0, "1\n")
    assert re.fullmatch(r"headway: process \d+ is not traced: .* too (big|large) .*\n", said)


def test_other_sitecustomize_modules_still_run(tmp_path):
    """A user's `sitecustomize` runs and is in sys.modules; without one, sys.path is unchanged."""
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    base = dict(os.environ) | {"PYTHONPATH": str(tmp_path)}
    program = "import sys; print(sys.modules['sitecustomize'].__file__, sys.path)"
    command = [sys.executable, "-c", program]

    with collecting(tmp_path / "x.hwt") as door:
        assert ran(command, environment(door.environment(), base=base), tmp_path) == ran(command, base, tmp_path)
    assert (tmp_path / "x.hwt").exists()


def test_the_launcher_becomes_the_program(tmp_path):
    """`headway trace` ends as the program ends, by exit code or signal, and passes stdin and argv on."""
    headway = [
        str(Path(sys.executable).with_name("headway")),
        "trace",
        "--no-summary",
        "--python",
        sys.executable,
        "-o",
    ]

    def launched(name, *arguments, **options):
        command = [*headway, str(tmp_path / f"{name}.hwt"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)

    assert launched("a", PROGRAM, "exit_code").returncode == 5
    assert launched("b", PROGRAM, "terminated").returncode == -signal.SIGTERM
    echo = "import sys; print(sys.argv, sys.stdin.read(), __name__)"
    (tmp_path / "echo.py").write_text(echo)
    done = launched("c", "--", str(tmp_path / "echo.py"), "--flag", "-m", input="in")
    assert done.stdout == f"{[str(tmp_path / 'echo.py'), '--flag', '-m']} in __main__\n"
    assert launched("d", "-m", "json.tool", input="{}").stdout == "{}\n"
    assert (
        launched("e", "-c", "import sys; print(sys.argv, input())", "--flag", input="in").stdout
        == "['-c', '--flag'] in\n"
    )
    wait_until_finished(tmp_path / "a.hwt")  # the collector may have had no core to make the file
    again = launched("a", PROGRAM, "plain")
    assert again.returncode == 2
    assert "exists" in again.stderr


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_A_GIL, ids=lambda one: one.id)
@pytest.mark.parametrize("wanted", [False, True])
def test_a_trace_holds_no_arguments_unless_asked(interpreter, wanted, tmp_path):
    """The file has the name of the script, the module or the interpreter, and no argument, code or other part of argv."""
    script = tmp_path / "app.py"
    script.write_text("import time; time.sleep(0.001)")
    python = interpreter.executable
    programs = {
        "app.py": [str(script), "--password=secret"],
        "-m app": ["-X", "dev", "-mapp", "--password=secret"],
        "-c": ["-Wignore", "-c", "import time; time.sleep(0.001); 'secret'", "secret"],
    }
    for i, (name, words) in enumerate(programs.items()):
        file = tmp_path / f"{i}.hwt"
        with collecting(file, record_arguments=wanted) as door:
            env = environment(door.environment())
            subprocess.run([python, *words], env=env, check=True, timeout=60, cwd=tmp_path)
        process = read(file).process

        assert process.program == name
        if wanted:
            assert list(process.command) == [str(python), *words]
        else:
            assert list(process.command) in ([str(python), str(script)], [str(python), *name.split()])
            assert b"secret" not in file.read_bytes()


PATCHED = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from headway_agent.recorder import _names
told = []
def tell(tid, name): told.append(name)
def run(name):
    thread = threading.Thread(target=int, name=name)
    thread.start()
    thread.join()
thread_type = threading.Thread
before = thread_type._set_native_id, thread_type.name
_names.watch(tell)
run("first")
_names.unwatch()
assert (thread_type._set_native_id, thread_type.name) == before
_names.watch(tell)
seen, beneath = [], thread_type._set_native_id
def theirs(self):
    seen.append(self.name)
    beneath(self)
thread_type._set_native_id = theirs
_names.unwatch()
assert thread_type._set_native_id is theirs and thread_type.name is before[1]
run("second")
_names.watch(tell)
run("third")
_names.unwatch()
assert thread_type._set_native_id is theirs
thread_type._set_native_id = beneath
_names.unwatch()
_names.watch(tell)
run("fourth")
_names.unwatch()
assert thread_type._set_native_id is before[0]
assert seen == ["second", "third"], seen
assert [name for name in told if name != "MainThread"] == ["first", "third", "fourth"], told
"""


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_another_tools_patch_of_threads_stays(interpreter, tmp_path):
    """Another tool's wrapper around our methods of `threading.Thread` stays when we leave.

    Our methods below it then do nothing, and work again when we come back.
    """
    agent = str(Path(headway.__file__).parent / "agent")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [interpreter.executable, "-c", PATCHED, agent], env=env, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_whatever_fails_in_ours_the_program_runs(tmp_path):
    """An exception of any kind gives one line, the user's sitecustomize runs, and the path has nothing of ours."""
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    agent = tmp_path / "agent"
    shutil.copytree(STARTUP_PATH.parent, agent, ignore=shutil.ignore_patterns("__pycache__"))
    (agent / "headway_agent" / "recorder.py").write_text("raise LookupError('on purpose')")
    base = dict(os.environ) | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "import sys; print(sys.path, sys.dont_write_bytecode)"]
    expected = ran(command, base, tmp_path)
    failing = environment({"HEADWAY_TRACE_DOOR": "/nowhere"}, base=base)
    failing["PYTHONPATH"] = failing["PYTHONPATH"].replace(str(STARTUP_PATH), str(agent / STARTUP_PATH.name))

    code, out, said = ran(command, failing, tmp_path)

    assert (code, out) == expected[:2]
    assert re.fullmatch(r"headway: process \d+ is not traced: on purpose\n", said)


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_pythons_without_a_recorder_are_left_alone(version, tmp_path):
    """A Python without a recorder has its usual output, path and sitecustomize, no line of ours, and no bytecode."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"there is no CPython {version} in ~/.pyenv, and the set-up installs none that old")
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    base = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for path in ({}, {"PYTHONPATH": str(tmp_path)}):
        command = [
            str(found[0]),
            "-c",
            "import sys; print(sys.path, sorted(sys.path_importer_cache), 'sitecustomize' in sys.modules)",
        ]
        env = environment({"HEADWAY_TRACE_DOOR": "/nowhere"}, base=base | path)
        assert ran(command, env, tmp_path) == ran(command, base | path, tmp_path)
    assert sorted(STARTUP_PATH.parent.glob("startup*/**/*.pyc")) == []
    assert not (tmp_path / "x.hwt").exists()


# A Python that says it is 3.7, as it runs our startup: here, and then in a child.
PRETENDER = f"""
import subprocess, sys
sys.version_info = (3, 7, 16, "final", 0)
sys.path.insert(0, {str(STARTUP_PATH)!r})
sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError:
    pass
if len(sys.argv) == 1:
    sys.exit(subprocess.call([sys.executable, __file__, "child"]))
"""


@pytest.mark.parametrize(
    ("command", "what"),
    [(["run", "--policy", "none", "--switch-interval", "0.004"], "scheduled"), (["trace", "-o", "x.hwt"], "traced")],
)
def test_a_launched_python_without_a_recorder_says_so_once(command, what, tmp_path):
    """The program that is launched says that Headway does not know its Python; a child of it says nothing."""
    program = tmp_path / "pretends.py"
    program.write_text(PRETENDER)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("headway")), *command, "--python", sys.executable, str(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    said = [line for line in done.stderr.splitlines() if "recording into" not in line]
    assert done.returncode == 0
    assert len(said) == 1
    assert re.fullmatch(
        rf"headway: process \d+ is not {what}: Headway needs CPython 3\.8 or later, and this is 3\.7", said[0]
    )


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", FOUND, ids=lambda one: one.id)
def test_a_program_whose_folder_is_gone(interpreter, tmp_path):
    """A relative entry of the path and a removed current folder change nothing: one start, and the user's path."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"PYTHONPATH": "x:"}
    python = f'exec {interpreter.executable} -c "import sys; print(sys.path[1:3], sorted(sys.modules))"'
    command = ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && {python}"]
    expected = ran(command, base, tmp_path)

    code, out, said = ran(command, environment({"HEADWAY_TRACE_DOOR": "/nowhere"}, base=base), tmp_path)

    assert code == expected[0]
    assert "left alone" not in said
    assert "RecursionError" not in said
    if code == 0:
        assert out.startswith(expected[1][: expected[1].index("]")])
        assert len(re.findall(r"headway: process \d+ is not traced", said)) == 1
