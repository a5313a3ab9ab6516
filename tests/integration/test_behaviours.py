"""A program, its parent and its children see nothing of `headway run` and `headway trace`.

A table of behaviours, each of which is compared with the bare program in the same test, under several interpreters.

One file, because a behaviour is a few lines, and the table must be read as one.
"""

import contextlib
import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from real_programs import LIMIT_S, SOME, bare

from headway.agent import STARTUP_PATH
from headway.live.files import lock_path, wait_until_finished

PROGRAM = str(Path(__file__).with_name("behaviours_program.py"))
WORLD = str(Path(__file__).with_name("behaviours_world.py"))
HEADWAY = str(Path(sys.executable).with_name("headway"))
WAYS = ("run", "trace")
SAID = "recording into "
UNTRACED = "headway: the program has ended, and no Python process of it was traced: "

pytestmark = pytest.mark.slow


class Case:
    """A way to start the program: bare, by `run`, or by `trace`."""

    def __init__(self, interpreter, how, folder):
        self.interpreter = interpreter
        self.how = how
        self.folder = folder
        self.here = folder / "here"
        self.here.mkdir(exist_ok=True)
        self.file = folder / "x.hwt"
        self.is_python = True

    def command(self, *arguments, script=PROGRAM):
        """Return the command line of the program."""
        python = str(self.interpreter.executable)
        begin = {
            "bare": [python],
            "run": [HEADWAY, "run", "--python", python],
            "trace": [HEADWAY, "trace", "-o", str(self.file), "--python", python],
        }[self.how]
        return [*begin, script, *map(str, arguments)]

    def start(self, *arguments, command=None, script=PROGRAM, **options):
        """Start the program in the folder `here`."""
        own = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": bare()}
        return subprocess.Popen(
            command or self.command(*arguments, script=script), **{**own, "cwd": self.here, **options}
        )

    def run(self, *arguments, **options):
        """Run the program to its end; return what its parent sees."""
        with self.start(*arguments, **options) as process:
            return self.end(process)

    def end(self, process):
        """Wait for the end; return what the parent sees, without our one line on stderr."""
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, self.without_ours(err)

    def without_ours(self, err):
        """Return stderr without the line that says where the trace goes, and the one that a program without Python has."""
        if err is None or self.how != "trace":
            return err
        lines = err.splitlines(keepends=True)
        assert lines[0].startswith(SAID.encode()), err
        if not self.is_python:
            assert lines.pop().startswith(UNTRACED.encode()), err
        return b"".join(lines[1:])

    def close(self):
        """Wait for the collector to finish, so that no process works in a folder that is removed."""
        if self.how == "trace":
            wait_until_finished(self.file)


def ready(process):
    """Wait until the program says that it is ready."""
    assert process.stdout.readline() == b"ready\n"


# ---- the program's surroundings ------------------------------------------------------------------------------------


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_the_program_finds_what_it_would(interpreter, how, tmp_path):
    """The facts that the program sees of itself, its process and its children are the same as without us.

    It has the process id of the launcher, and the parent that started it.
    Our archive is first in PYTHONPATH, our variables are added, and everything else in the environment is unchanged.
    """
    found = {}
    for one in ("bare", how):
        case = Case(interpreter, one, tmp_path)
        with case.start(script=WORLD, stdin=subprocess.PIPE, env=bare(OTHER="ä")) as process:
            out, err = process.communicate(b"some input", timeout=LIMIT_S)
        case.close()
        assert (process.returncode, case.without_ours(err)) == (0, b"")
        found[one] = json.loads(out)
        assert (found[one]["pid"], found[one]["parent"]) == (process.pid, os.getpid())

    ours, bares = found[how], found["bare"]
    assert ours["facts"] == bares["facts"]
    environ = ours["environ"]
    assert environ.pop("PYTHONPATH") == str(STARTUP_PATH)
    assert {name: value for name, value in environ.items() if not name.startswith("HEADWAY_")} == bares["environ"]


# ---- behaviours: each is a function of a Case, whose answers are compared ------------------------------------------

TABLE: dict[str, Callable] = {}


def behaviour(function):
    """Add a behaviour under its function's name."""
    TABLE[function.__name__.replace("_", " ")] = function
    return function


def add(name, *arguments, **options):
    """Add a behaviour that runs the program to its end."""
    TABLE[name] = lambda case: case.run(
        *arguments,
        **{key: value(case) if callable(value) and key == "env" else value for key, value in options.items()},
    )


for code in (0, 1, 3, 126, 127, 255, 256, -1):
    add(f"exit code {code}", "exits", code)
add("exit with a text", "exit_text")
add("exit with None", "exit_none")
add("os._exit", "os_exit", 7)
for name in ("ValueError", "KeyboardInterrupt", "MemoryError"):
    add(f"uncaught {name}", "raises", name)
for name in (
    "SIGTERM",
    "SIGKILL",
    "SIGSEGV",
    "SIGHUP",
    "SIGINT",
    "SIGALRM",
    "SIGUSR1",
    "SIGRTMIN",
    "SIGXCPU",
):
    add(f"death by {name}", "dies", name)
add("abort", "fatal")
add("an exception in a thread", "thread_raises")
add("the order at the end", "atexit_order")
add("a crowd of lines", "prints", 20000)
add("fork and wait", "fork")
add("wait for all", "reaps_all")
add("told of a child", "child_signal")
add("the shell's children", "system")
add("a child that is no Python", "child_of", "sh", "-c", "echo $0 $#; exit 3")
add("a Python child", "python_child", "-c", "import sys; print(sys.argv, sys.flags); sys.exit(4)", "x")
add("an isolated child", "python_child", "-I", "-c", "import sys; print(sys.path)")
add("a child with an environment of its own", "clean_child")
add("a child that dies", "python_child", "-c", "import os; os.kill(os.getpid(), 9)")
add("exec of another program", "becomes", "sh", "-c", "echo $0 $1; exit 6", "a", "b")
add("exec of what is missing", "becomes", "/nothing")
for method in ("fork", "spawn", "forkserver"):
    add(f"a pool by {method}", "pool", method)

# Variables of one line have nothing to do with each other, and are shown by one program.
VARIABLES = (
    {
        "PYTHONOPTIMIZE": "2",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "PYTHONSAFEPATH": "1",
        "COLUMNS": "3",
        "HOME": "/nothing",
    },
    {"PYTHONDEVMODE": "1", "PYTHONPYCACHEPREFIX": "/nothing/cache", "LC_ALL": "C", "LD_BIND_NOW": "1"},
    {
        "PYTHONWARNINGS": "error",
        "PYTHONIOENCODING": "latin-1:replace",
        "PYTHONNOUSERSITE": "1",
        "NO_COLOR": "1",
        "TMPDIR": "/nothing",
    },
    {"PYTHONMALLOC": "debug", "PYTHONDONTWRITEBYTECODE": "1", "LC_CTYPE": "C", "TERM": "nothing"},
    {"PYTHONHASHSEED": "0", "PYTHONFAULTHANDLER": "1", "PYTHONBREAKPOINT": "nothing", "ODD": "a\udcffb=\n"},
    {"PYTHONTRACEMALLOC": "1", "PYTHONCOERCECLOCALE": "0", "LANG": "C", "PYTHONSTARTUP": "/nothing.py"},
    {"PYTHONINSPECT": "1"},
    {"LANG": "C"},
)
for variables in VARIABLES:
    add(" ".join(f"{name}={value!r}" for name, value in variables.items()), "show", env=bare(**variables))
add("an empty environment", "show", env={})
add("a large environment", "show", env=bare(**{f"LARGE_{i}": "x" * 1000 for i in range(200)}))
add("the C locale by nothing", "show", env={name: value for name, value in bare().items() if name != "LANG"})
add("a locale that is not there", "show", env=bare(LC_CTYPE="no_NO.such", LC_ALL=""))

for value in ("", "lib", ":lib", "lib:", "lib::lib", ":", "lib:lib", "/nothing:lib", "./lib/../lib"):
    add(f"PYTHONPATH={value!r}", "show", env=bare(PYTHONPATH=value))


@behaviour
def pythonexecutable(case):
    """Set the interpreter's own executable."""
    return case.run("show", env=bare(PYTHONEXECUTABLE=str(case.interpreter.executable)))


@behaviour
def pythonhome(case):
    """Set the interpreter's own home; headway's is of another version."""
    return case.run("show", env=bare(PYTHONHOME=str(Path(case.interpreter.executable).resolve().parents[1])))


@behaviour
def a_child_without_site(case):
    """Start a child without `site`, in which nothing removes our archive from the path."""
    code, out, err = case.run("python_child", "-S", "-c", "import sys; print(sys.path)")
    return code, out.replace(f"'{STARTUP_PATH}', ".encode(), b""), err


def with_module(name, text):
    """Return a behaviour with a module on PYTHONPATH."""

    def run(case):
        folder = case.here / f"with-{name}"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(text)
        return case.run("show", env=bare(PYTHONPATH=str(folder), PYTHONDONTWRITEBYTECODE="1"))

    return run


TABLE["a sitecustomize of the user's"] = with_module("sitecustomize", "import os; os.write(1, b'mine\\n')\n")
TABLE["a sitecustomize that fails"] = with_module("sitecustomize", "raise ValueError('mine')\n")
TABLE["a sitecustomize without what it imports"] = with_module("sitecustomize", "import nothing_there\n")
TABLE["a sitecustomize that ends it"] = with_module("sitecustomize", "import os; os._exit(4)\n")
TABLE["a usercustomize on PYTHONPATH"] = with_module("usercustomize", "import os; os.write(1, b'mine\\n')\n")
TABLE["a rich.py on PYTHONPATH"] = with_module("rich", "raise SystemExit('rich')\n")
TABLE["an argparse.py on PYTHONPATH"] = with_module("argparse", "raise SystemExit('argparse')\n")
TABLE["a headway.py on PYTHONPATH"] = with_module("headway", "raise SystemExit('headway')\n")


@behaviour
def bytecode_of_the_startup(case):
    """Look for bytecode of our startup, which is never written, whatever the environment says."""
    done = case.run("show")
    return done, sorted(STARTUP_PATH.parent.glob("startup*/**/*.pyc"))


# ---- standard streams ----


def closing(*descriptors):
    """Return a function that closes descriptors in the child."""

    def close():
        for one in descriptors:
            os.close(one)

    return close


for closed in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
    name = " and ".join(("stdin", "stdout", "stderr")[one] for one in closed)
    TABLE[f"{name} closed"] = lambda case, closed=closed: quiet(case, "streams_there", preexec_fn=closing(*closed))
    TABLE[f"{name} closed, and printed to"] = lambda case, closed=closed: quiet(
        case, "complains", preexec_fn=closing(*closed)
    )


def quiet(case, *arguments, **options):
    """Run with a stderr that may be closed, where our line is missing, too; the trace is finished all the same."""
    with case.start(*arguments, **options) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    case.close()
    assert case.file.exists() == (case.how == "trace")
    assert not lock_path(case.file).exists()
    return process.returncode, out, case.without_ours(err) if err.startswith(SAID.encode()) else err


@behaviour
def stdout_is_full(case):
    with open("/dev/full", "wb") as full:
        return case.run("prints", 5, stdout=full)


@behaviour
def stderr_is_full(case):
    with open("/dev/full", "wb") as full:
        return case.run("complains", stderr=full)


@behaviour
def both_are_full(case):
    with open("/dev/full", "wb") as full:
        return case.run("prints", 5, stdout=full, stderr=full)


@behaviour
def nobody_reads_stdout(case):
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as out:
        return case.run("prints", 5000, stdout=out)


@behaviour
def stdin_passes(case):
    with case.start("counts", stdin=subprocess.PIPE) as process:
        return process.communicate(b"unread", timeout=LIMIT_S)[0], process.returncode


@behaviour
def the_streams_end_with_the_program(case):
    """Read stdout and stderr to their ends, which come with the end of the program alone."""
    reads, writes = os.pipe()
    with case.start("exits", 0, stdout=writes, stderr=writes) as process:
        os.close(writes)
        process.wait(LIMIT_S)
        ended = select.select([reads], [], [], 0)[0] != []
        text = b""
        while part := os.read(reads, 4096):
            text += part
        os.close(reads)
    return process.returncode, case.without_ours(text), ended or case.how == "bare"


@behaviour
def an_inherited_descriptor_ends_with_the_program(case):
    reads, writes = os.pipe()
    with case.start("exits", 0, pass_fds=[writes]) as process:
        os.close(writes)
        done = case.end(process)
        assert os.read(reads, 1) == b""
        os.close(reads)
    return done


# ---- signals ----

# SIGTSTP is missing: a stop that comes soon after it cancels a SIGCONT.
COUNTED = (
    "SIGALRM",
    "SIGRTMIN",
    "SIGWINCH",
    "SIGUSR1",
    "SIGUSR2",
    "SIGCHLD",
    "SIGCONT",
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGTERM",
    "SIGURG",
    "SIGIO",
)


def handled(case, group):
    """Send each signal once to the program, or its group; return how often each was handled."""
    with case.start("counts", *COUNTED, stdin=subprocess.PIPE, preexec_fn=os.setsid) as process:
        ready(process)
        for name in COUNTED:
            (os.killpg if group else os.kill)(process.pid, getattr(signal, name))
        code, out, err = case.end(process)
    return json.loads(out), code, err


def dies_of(name, *arguments):
    """Return a behaviour: the parent sends a signal and sees how the program ends."""

    def run(case):
        with case.start(*(arguments or ("waits",)), stdin=subprocess.PIPE) as process:
            ready(process)
            process.send_signal(getattr(signal, name))
            process.wait(LIMIT_S)
            return case.end(process)

    return run


for name in ("SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGALRM", "SIGRTMIN"):
    TABLE[f"the parent sends {name}"] = dies_of(name)
TABLE["the parent sends SIGINT"] = dies_of("SIGINT", "interrupted")


def inherited(ignored=(), blocked=()):
    """Return a function that sets signals in the child."""

    def prepare():
        for name in ignored:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in blocked])

    return prepare


INHERITED = ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGHUP", "SIGTERM", "SIGCHLD", "SIGTSTP")


def sh_trap(case, name):
    """Let a child that is not Python show a signal's state, because Python hides what it ignores itself."""

    def prepare():
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN if name else signal.SIG_DFL)

    command = {
        "bare": [],
        "run": [HEADWAY, "run"],
        "trace": [HEADWAY, "trace", "-o", str(case.file)],
    }[case.how]
    line = [*command, *(["--"] if command else []), "grep", "SigIgn", "/proc/self/status"]
    case.is_python = False
    return case.run(command=line, preexec_fn=prepare, restore_signals=False)


TABLE["SIGPIPE and SIGXFSZ ignored, for another program"] = lambda case: sh_trap(case, name=True)
TABLE["SIGPIPE and SIGXFSZ not ignored, for another program"] = lambda case: sh_trap(case, name=False)


@behaviour
def stopped_and_continued(case):
    """Stop and continue the program, as a shell does; the parent sees both."""
    seen = []
    with case.start("waits", stdin=subprocess.PIPE) as process:
        ready(process)
        for number, options in ((signal.SIGSTOP, os.WUNTRACED), (signal.SIGCONT, os.WCONTINUED)):
            process.send_signal(number)
            seen.append(os.waitpid(process.pid, options)[1])
        return seen, case.end(process)


# ---- the program's parent ----


def alone(number=signal.SIGKILL):
    """Return a function that makes the child die with its parent."""

    def prepare():
        import ctypes

        ctypes.CDLL(None).prctl(1, int(number), 0, 0, 0)

    return prepare


def fact(case, names, **options):
    """Return the exit code and the named facts."""
    with case.start(*names, script=WORLD, **options) as process:
        out, _ = process.communicate(timeout=LIMIT_S)
    facts = json.loads(out)["facts"]
    assert set(facts) == set(names)
    return process.returncode, facts


TABLE["a death signal"] = lambda case: fact(case, ["prctl"], preexec_fn=alone())
TABLE["another umask"] = lambda case: fact(case, ["umask", "a file's mode"], preexec_fn=lambda: os.umask(0o27) and None)
TABLE["another nice value"] = lambda case: fact(case, ["nice value"], preexec_fn=lambda: os.nice(3) and None)
TABLE["another session"] = lambda case: fact(case, ["leads a group", "session is the parent's"], start_new_session=True)
TABLE["one CPU"] = lambda case: fact(
    case, ["allowed CPUs"], preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
)
TABLE["limits"] = lambda case: fact(
    case,
    ["limits"],
    preexec_fn=lambda: (
        [resource.setrlimit(one, (200, 200)) for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)] and None  # type: ignore[func-returns-value]
    ),
)
TABLE["few descriptors"] = lambda case: case.run(
    "exits", 0, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
)
TABLE["no core files"] = lambda case: case.run(
    "fatal", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
)
TABLE["SCHED_BATCH"] = lambda case: fact(
    case, ["scheduler of the system"], preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
)


@behaviour
def the_parent_is_killed(case):
    """Kill the parent of a program that watches it, as a Jupyter kernel watches its front end."""
    noticed = case.here / "noticed"
    noticed.unlink(missing_ok=True)
    between = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    front_end = [sys.executable, "-c", between, *case.command("orphaned")]
    with case.start(command=front_end, stderr=subprocess.DEVNULL) as process:
        pid = int(process.stdout.readline())
        process.kill()
    deadline = time.monotonic() + LIMIT_S
    while not noticed.exists():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return "not noticed"
        time.sleep(0.005)
    return noticed.read_text()


@behaviour
def the_parent_with_a_death_signal_is_killed(case):
    between = (
        "import ctypes, subprocess, sys\n"
        "subprocess.Popen(sys.argv[1:], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)).wait()"
    )
    front_end = [sys.executable, "-c", between, *case.command("waits")]
    reads, writes = os.pipe()
    with case.start(command=front_end, stdin=reads, stderr=subprocess.DEVNULL) as process:
        os.close(reads)
        ready(process)
        process.kill()
        ended = process.stdout.read()  # the pipe's end: the program is gone, too
    os.close(writes)
    return ended


@behaviour
def a_supervisor(case):
    """Start the program in a group of its own, send TERM to it, and wait for any child, as a supervisor does."""
    supervisor = (
        "import os, signal, subprocess, sys\n"
        "one = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=os.setpgrp)\n"
        "one.stdout.readline()\n"
        "os.kill(one.pid, signal.SIGTERM)\n"
        "pid, status = os.waitpid(-1, 0)\n"
        "print(pid == one.pid, status)\n"
        "try:\n os.waitpid(-1, 0)\nexcept ChildProcessError:\n print('no other')\n"
    )
    return case.run(command=[sys.executable, "-c", supervisor, *case.command("waits")])


SHELL = {
    "a pipeline": "{} prints 3 2>/dev/null | cat",
    "a pipe that closes": "{} prints 20000 2>/dev/null | head -n 1",
    "a list": "{0} exits 3 2>/dev/null; echo $?; {1} exits 0 2>/dev/null && echo yes",
    "a status by signal": "{} dies SIGKILL 2>/dev/null; echo $?",
    "in the background": "{} exits 5 2>/dev/null & wait $!; echo $?",
    "a group by job control": "set -m; {} waits 2>/dev/null </dev/zero & kill -STOP %1; kill -CONT %1; kill -TERM %1; wait %1; echo $?",
    "nohup": "nohup {} exits 4 2>/dev/null; echo $?",
    "redirection": "{} prints 2 >out 2>/dev/null; cat out",
    "exec in a shell": "exec {} exits 9 2>/dev/null",
    "a subshell": "(cd lib && {} prints 1 2>/dev/null); pwd | wc -l",
    "timeout": "timeout 120 {} exits 3 2>/dev/null; echo $?",
    "env": 'env -i PATH="$PATH" {} exits 3 2>/dev/null; echo $?',
    "xargs": "echo 3 | xargs {} exits 2>/dev/null; echo $?",
}


def in_a_shell(line):
    """Return a behaviour: a line of shell."""

    def run(case):
        first = " ".join(case.command())
        second = first.replace("x.hwt", "y.hwt")
        (case.here / "lib").mkdir(exist_ok=True)
        text = line.format(first, second) if "{0}" in line else line.format(first)
        with case.start(command=["bash", "-c", text]) as process:
            out, _ = process.communicate(timeout=LIMIT_S)  # bash writes the command line to stderr
        return process.returncode, out

    return run


for name, line in SHELL.items():
    TABLE[f"in a shell: {name}"] = in_a_shell(line)


@behaviour
def a_shells_interactive_job(case):
    """Read from the terminal in the background, which stops the program, and go on in the foreground."""
    controller, terminal = pty.openpty()
    leader = (
        "import fcntl, os, signal, subprocess, sys, termios\n"
        "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "one = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, preexec_fn=os.setpgrp)\n"
        "one.stdout.readline()\n"
        "status = os.waitpid(one.pid, os.WUNTRACED)[1]\n"
        "print(os.WIFSTOPPED(status), os.WIFSTOPPED(status) and os.WSTOPSIG(status))\n"
        "os.kill(one.pid, signal.SIGKILL); print(one.wait())\n"
    )
    command = [sys.executable, "-c", leader, *case.command("reads_terminal")]
    with case.start(command=command, stdin=terminal, stderr=subprocess.DEVNULL) as process:
        os.close(terminal)
        out, _ = process.communicate(timeout=LIMIT_S)
    os.close(controller)
    return process.returncode, out


@behaviour
def a_working_folder_that_is_gone(case):
    gone = case.here / "gone"
    gone.mkdir()
    return case.run("exits", 3, cwd=gone, preexec_fn=gone.rmdir)


@behaviour
def a_relative_script(case):
    (case.here / "small.py").write_text("import sys; print(sys.argv, sys.path[0], __file__)")
    return case.run(command=case.command("a", "-m", "--", script="small.py"))


@behaviour
def a_folder_as_a_program(case):
    (case.here / "app").mkdir(exist_ok=True)
    (case.here / "app" / "__main__.py").write_text("import sys; print(sys.argv, sys.path[0], __name__)")
    return case.run(command=case.command("a", script="app"))


@behaviour
def a_module(case):
    (case.here / "mod.py").write_text("import sys; print(sys.argv, sys.path[0], __name__, __spec__.name)")
    return case.run(command=[*case.command(script="-m"), "mod", "--flag", "x"])


@behaviour
def odd_arguments(case):
    (case.here / "small.py").write_text("import sys; print(ascii(sys.argv))")
    return case.run(command=case.command("", " ", "a\nb", "\udcff", "é", "--help", "-o", script="small.py"))


@behaviour
def a_syntax_error(case):
    (case.here / "wrong.py").write_text("a b c")
    return case.run(command=case.command(script="wrong.py"))


@behaviour
def a_script_of_one_python_line(case):
    """Execute a script whose first line names the interpreter, as the shell would."""
    script = case.here / "tool"
    script.write_text(f"#!{case.interpreter.executable} -X dev\nimport sys; print(sys.argv, sys.flags.dev_mode)\n")
    script.chmod(0o755)
    command = {"bare": [], "run": [HEADWAY, "run"], "trace": [HEADWAY, "trace", "-o", str(case.file)]}[case.how]
    return case.run(command=[*command, "./tool", "x"])


# ---- signals that are sent, ignored or blocked ----

FOUND_OF_SIGNALS = ("ignored signals", "blocked signals", "caught signals", "pending signals", "handlers")
SIGNALS: dict[str, Callable] = {
    "ignored before": lambda case: fact(
        case, FOUND_OF_SIGNALS, preexec_fn=inherited(ignored=INHERITED), restore_signals=False
    ),
    "blocked before": lambda case: fact(
        case, FOUND_OF_SIGNALS, preexec_fn=inherited(blocked=INHERITED), restore_signals=False
    ),
    "to the program": lambda case: handled(case, group=False),
    "to the group": lambda case: handled(case, group=True),
}


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_signals_are_as_they_would_be(interpreter, kind, tmp_path):
    """Each signal is handled once, whether it is sent to the program or its group, and ignored or blocked signals stay so."""
    answers = {}
    for how in ("bare", *WAYS):
        case = Case(interpreter, how, tmp_path)
        answers[how] = SIGNALS[kind](case)
        case.close()

    assert {how: answers[how] for how in WAYS} == dict.fromkeys(WAYS, answers["bare"])
    if kind.startswith("to "):
        assert answers["run"] == (dict.fromkeys(COUNTED, 1), 0, b"")


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_a_program_behaves_as_it_would(interpreter, name, tmp_path):
    """The parent and the program see what they would see without us."""
    answers = {}
    for how in ("bare", *WAYS):
        case = Case(interpreter, how, tmp_path)
        with contextlib.ExitStack() as stack:
            stack.callback(case.close)
            answers[how] = TABLE[name](case)

    assert {how: answers[how] for how in WAYS} == dict.fromkeys(WAYS, answers["bare"])


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", SOME, ids=lambda one: one.id)
def test_an_alarm_set_before_ends_the_program(interpreter, tmp_path):
    """An alarm that was set before the launch ends the program, with us as without us; all three wait at once."""
    with contextlib.ExitStack() as stack:
        programs = []
        for how in ("bare", *WAYS):
            case = Case(interpreter, how, tmp_path)
            stack.callback(case.close)
            program = case.start(
                "waits", stdin=subprocess.PIPE, preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 3)
            )
            programs.append(stack.enter_context(program))

        assert [one.wait(LIMIT_S) for one in programs] == [-signal.SIGALRM] * 3
