"""The safety of `headway attach`: it must give no one a right, and leave no process changed. Some tests need root.

One file, because all tests use the same program.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from attached import Attached
from real_programs import LIMIT_S
from waiting import state_of, wait_for

from headway.errors import RecordingError
from headway.host.interpreters import discover
from headway.host.interpreters import select as chosen
from headway.library import library_path
from headway.live.attach import detach, look_at
from headway.live.channel import Channel
from headway.live.lease import SPAN_S, Ended
from headway.live.memory import Memory
from headway.live.remote import OFFSETS, Request

BY_NAME = {interpreter.name: interpreter for interpreter in reversed(chosen(discover()[0], ["all"]))}
NAMES = [name for name in ("3.8", "3.11", "3.12", "3.13", "3.13t") if name in BY_NAME] + ["3.14", "3.15"]
ASKED = ["3.14", "3.15"]
NOBODY = 65534

pytestmark = pytest.mark.slow
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="plays another user, which only root can")

# Threads contend, for longer than the switch interval, and rest in between: attach is what takes its time. While the
# program looks at itself they do not rest, so that there is something to count. Commands come on stdin. Modules are imported before the program may become another user, who could not read them if root has
# installed the interpreter.
PROGRAM = r"""
import _socket, ctypes, errno, json, os, select, struct, sys, sysconfig, threading, time, platform
sysconfig.get_config_vars()
"".encode("utf-16-le"), "".encode("utf-32-le"), "".encode("latin-1")
looks = threading.Event()
def burn():
    while True:
        until = time.thread_time() + 0.012
        while time.thread_time() < until:
            sum(range(2000))
        looks.wait(0.2)
for _ in range(2):
    threading.Thread(target=burn, daemon=True).start()
uid = int(sys.argv[2])
if uid:
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
print("ready", flush=True)
def look():
    # The library, where it is loaded: what it says, and whether anything is still counted.
    with open("/proc/self/maps") as maps:
        if os.path.basename(sys.argv[1]) not in maps.read():
            return [0, "", False]
    library = ctypes.CDLL(sys.argv[1])
    library.hw_schedule_active.restype = ctypes.c_char_p
    def counted():
        counts, times = (ctypes.c_int64 * 16)(), (ctypes.c_int64 * 2)()
        library.hw_schedule_counts(counts)
        library.hw_gil_times(times, ctypes.byref(times, 8))
        return counts[0], times[1]
    looks.set()
    before = counted()
    for _ in range(20):
        time.sleep(0.001)
    found = [library.hw_trace_active(), library.hw_schedule_active().decode(), counted() != before]
    looks.clear()
    return found
while True:
    if not select.select([sys.stdin], [], [], 0.002)[0]:
        continue
    command = sys.stdin.readline().strip()
    if command == "look":
        print(json.dumps(look()), flush=True)
    elif command == "block":
        print("blocked", flush=True)
        os.read(0, 1)
        print("on", flush=True)
    elif command.startswith("run "):
        exec(json.loads(command[4:]), {})
        print("done", flush=True)
    else:
        break
"""


class Program:
    """PROGRAM, running."""

    def __init__(self, name, uid=0, before=(), options=(), env=None):
        command = [*before, BY_NAME[name].executable, *options, "-u", "-c", PROGRAM, str(library_path()), str(uid)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, env=env, **pipes)  # type: ignore[call-overload]
        self.limit = threading.Timer(LIMIT_S * 2, self.process.kill)
        self.limit.start()
        self.pid = self.process.pid

    def __enter__(self):
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()
        return self

    def __exit__(self, *_):
        self.limit.cancel()
        if not self.process.stdout.closed:
            self.process.kill()
            self.process.communicate()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def look(self):
        """Return [traced, policy, whether anything is still counted]."""
        self.tell("look")
        return json.loads(self.process.stdout.readline())

    def run(self, code):
        self.tell("run " + json.dumps(code))
        assert self.process.stdout.readline() == "done\n"

    def block(self):
        """Make its main thread run no Python until go_on()."""
        self.tell("block")
        assert self.process.stdout.readline() == "blocked\n"
        wait_for(lambda: Path(f"/proc/{self.pid}/syscall").read_text().startswith("0 0x0 "))

    def go_on(self):
        self.tell("")
        assert self.process.stdout.readline() == "on\n"

    def finish(self):
        """End it, and return its stderr."""
        errors = self.process.communicate("quit\n", timeout=LIMIT_S)[1]
        assert self.process.returncode == 0
        return errors


def start(*arguments, **options):
    """Start the command line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", "headway", *map(str, arguments)], text=True, **pipes, **options)  # type: ignore[call-overload]


def run(*arguments, **options):
    with start(*arguments, **options) as command:
        limit = threading.Timer(LIMIT_S, command.kill)
        limit.start()
        output, errors = command.communicate()
        limit.cancel()
    return subprocess.CompletedProcess(command.args, command.returncode, output, errors)


def read_until(stream, words):
    """Read lines until one contains `words`; return them all."""
    said = ""
    while words not in said:
        line = stream.readline()
        assert line, said
        said += line
    return said


# ---------------------------------------------------------------- the end of a recording
@pytest.mark.matrix("name")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("name", ["3.12", *ASKED])
def test_a_signal_detaches_in_order(tmp_path, name, number):
    """SIGTERM, SIGHUP and Ctrl-C end the recording at once, with exit code 0 and a trace."""
    file = tmp_path / "trace.hwt"
    with Program(name) as program:
        command = start("attach", program.pid, "-o", file, "--no-summary")
        read_until(command.stderr, "recording process")
        command.send_signal(number)
        errors = command.communicate(timeout=LIMIT_S)[1]
        assert command.returncode == 0, errors
        assert program.look() == [0, "", False]
        assert program.finish() == ""
    assert file.exists()


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_attach_ends_the_recording(tmp_path, name):
    """A process whose attach was killed stops counting by itself within seconds, and can be attached to again."""
    with Program(name) as program:
        command = start("attach", program.pid, "-o", tmp_path / "one.hwt")
        read_until(command.stderr, "recording process")
        traced, policy, counted = program.look()
        assert (traced, policy) == (1, "")
        assert counted or name == "3.13t"
        command.kill()
        command.communicate()
        wait_for(lambda: program.look() == [0, "", False])
        done = run("attach", program.pid, "-o", tmp_path / "two.hwt", "--duration", "0.2", "--no-summary")
        assert done.returncode == 0, done.stderr
        assert program.finish() == ""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ASKED)
def test_a_killed_attach_ends_the_policy(name):
    """A policy whose attach was killed ends within seconds."""
    with Program(name) as program:
        command = start("attach", program.pid, "--policy", "fair")
        read_until(command.stderr, "is scheduled by fair")
        assert program.look() == [0, "fair", True]
        command.kill()
        command.communicate()
        wait_for(lambda: program.look() == [0, "", False])
        done = run("attach", program.pid, "--policy", "bfs", "--duration", "0.2")
        assert (done.returncode, "in place of" in done.stderr) == (0, False)
        assert program.finish() == ""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.12", "3.14"])
def test_it_goes_on_as_long_as_attach_does(tmp_path, name):
    """A process is recorded for longer than a lease lasts, because attach renews the lease."""
    with Program(name) as program:
        held = Attached(look_at(program.pid), tmp_path / "trace.hwt")
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > SPAN_S + 2)
        assert program.look()[0] == 1
        assert held.ended is Ended.LIVE
        held.let_go()
        wait_for(lambda: held.ended is Ended.EXPIRED)
        assert program.look() == [0, "", False]
        assert detach(look_at(program.pid)) == ""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", ["3.12", "3.14"])
def test_a_process_stopped_when_it_is_to_be_told(tmp_path, name):
    """A stopped process cannot be told to detach, which the exit code says; when it goes on, it detaches by itself."""
    with Program(name) as program:
        command = start("attach", program.pid, "-o", tmp_path / "trace.hwt", "--no-summary")
        read_until(command.stderr, "recording process")
        program.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(program.pid) == "T")
        command.send_signal(signal.SIGINT)
        errors = command.communicate(timeout=LIMIT_S)[1]
        assert command.returncode == 7
        assert f"process {program.pid} is stopped" in errors
        assert "ends by itself" in errors
        program.process.send_signal(signal.SIGCONT)
        wait_for(lambda: program.look() == [0, "", False])
        assert program.finish() == ""


@pytest.mark.parametrize("name", ["3.8", "3.13", "3.14"])
def test_detach_by_hand(tmp_path, name):
    """`headway detach` ends a recording and a policy, whoever began them, and says which; attach notices."""
    file = tmp_path / "trace.hwt"
    with Program(name) as program:
        command = start("attach", program.pid, "-o", file, "--no-summary")
        read_until(command.stderr, "recording process")
        if name in ASKED:
            policy = start("attach", program.pid, "--policy", "fair")
            read_until(policy.stderr, "is scheduled by fair")
        done = run("detach", program.pid)
        assert done.returncode == 0, done.stderr
        assert f"ended in process {program.pid}: the recording into {file}" in done.stderr
        assert program.look() == [0, "", False]
        assert "was ended by another command" in command.communicate(timeout=LIMIT_S)[1]
        assert command.returncode == 0
        if name in ASKED:
            assert "and the policy fair" in done.stderr
            assert "was ended by another command" in policy.communicate(timeout=LIMIT_S)[1]
        done = run("detach", program.pid)
        assert (done.returncode, "is neither recorded nor scheduled" in done.stderr) == (0, True)
        assert program.finish() == ""


@pytest.mark.parametrize("name", ["3.12", "3.14"])
def test_one_attach_at_a_time(tmp_path, name):
    """A second attach says since when, into which file and what to do, and the first goes on."""
    with Program(name) as program:
        held = Attached(look_at(program.pid), tmp_path / "one.hwt")
        done = run("attach", program.pid, "-o", tmp_path / "two.hwt")
        assert done.returncode == 7
        assert re.search(r"already recorded, since \d\d:\d\d:\d\d into \S+/one\.hwt", done.stderr)
        assert f"headway detach {program.pid}" in done.stderr
        assert (held.ended, program.look()[0]) == (Ended.LIVE, 1)
        held.close()


# ---------------------------------------------------------------- giving up
@pytest.mark.parametrize("name", ASKED)
def test_giving_up_undoes_the_request(tmp_path, name):
    """A request that was given up has no effect later, and prints nothing, when the main thread runs Python again."""
    with Program(name) as program:
        program.block()
        done = run("attach", program.pid, "-o", tmp_path / "trace.hwt", "--patience", "0.3")
        assert (done.returncode, "has run no Python for 0.3 s" in done.stderr) == (7, True)
        program.go_on()
        assert program.look() == [0, "", False]
        assert program.finish() == ""


@pytest.mark.matrix("name")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["3.12", *ASKED])
def test_an_attach_that_is_ended_while_it_waits(tmp_path, name, number):
    """A request has no effect later if its attach has ended, because nobody answers; the attach has said why it waited."""
    with Program(name) as program:
        program.block()
        command = start("attach", program.pid, "-o", tmp_path / "trace.hwt", "--patience", "60")
        wait_for(lambda: asked(program.pid, name))
        said = command.stderr.readline()
        assert said == f"waiting up to 60 s until the main thread of process {program.pid} runs Python\n"
        command.send_signal(number)
        command.communicate(timeout=LIMIT_S)
        assert command.returncode == (-number if number == signal.SIGKILL else 128 + number)
        program.go_on()
        assert program.look() == [0, "", False]
        assert program.finish() == ""
    assert not (tmp_path / "trace.hwt").exists()


def asked(pid, name):
    """Return whether the process's memory has a request: a script's path, or a text to be compiled."""
    wanted = b"/script.py\0" if name in ASKED else b"    _headway()\n"
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    with Memory(pid) as memory:
        for addresses, rights, *_ in maps:
            begin, end = (int(address, 16) for address in addresses.split("-"))
            if rights.startswith(("rw", "r-xp")) and end - begin <= 16 << 20:
                with contextlib.suppress(OSError):
                    if wanted in memory.read(begin, end - begin):
                        return True
    return False


@only_root
@pytest.mark.parametrize("name", ASKED)
def test_nobody_else_can_make_the_script(tmp_path, monkeypatch, name):
    """Another user cannot create the script's path, neither after root's attach has given up, nor while it waits."""
    paths = []
    write = Channel.write_script
    monkeypatch.setattr(Channel, "write_script", lambda *a: paths.append(write(*a)) or paths[-1])  # type: ignore[func-returns-value]
    with Program(name) as program:
        program.block()
        with pytest.raises(RecordingError, match="has run no Python"):
            Attached(look_at(program.pid), tmp_path / "trace.hwt", patience_s=0.2)
        code = "import os, sys; os.makedirs(os.path.dirname(sys.argv[1])); open(sys.argv[1], 'w')"
        other = subprocess.run(
            ["/usr/bin/python3", "-c", code, str(paths[0])],
            check=False,
            user=NOBODY,
            group=NOBODY,
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert "PermissionError" in other.stderr
        for parent in paths[0].parents:
            if parent.exists():
                found = parent.stat()
                assert (found.st_uid, found.st_mode & 0o022) == (0, 0), parent
        program.go_on()
        assert program.finish() == ""


# ---------------------------------------------------------------- a hostile process
@only_root
def test_the_process_is_not_run(tmp_path):
    """Root's attach does not run a user's own program that is called python3.14."""
    if shutil.which("gcc") is None:
        pytest.skip("makes a program with gcc")
    folder = Path(tempfile.mkdtemp(prefix="hostile-", dir="/var/tmp"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        source, program, told = folder / "own.c", folder / "python3.14", folder / "told"
        source.write_text(
            "#include <stdio.h>\n#include <unistd.h>\n"
            "int main(int n, char **words) {\n"
            f'    if (n > 1) {{ FILE *file = fopen("{told}", "w"); fprintf(file, "%d", getuid()); fclose(file); }}\n'
            "    else pause();\n}\n"
        )
        subprocess.run(["gcc", "-o", program, source], check=True)
        with subprocess.Popen([program], user=NOBODY, group=NOBODY) as own:
            try:
                wait_for(lambda: os.readlink(f"/proc/{own.pid}/exe") == str(program))
                done = run("attach", own.pid, "-o", tmp_path / "trace.hwt")
                assert done.returncode == 7
                assert "no CPython 3.14 in it" in done.stderr
                assert not told.exists()
                assert own.poll() is None
            finally:
                own.kill()
    finally:
        shutil.rmtree(folder)


@only_root
@pytest.mark.parametrize("name", ["3.12", "3.14"])
def test_root_attaches_to_a_users_process(monkeypatch, name):
    """Root can attach to a user's process, which writes only where it may.

    The files that root makes meanwhile are root's, and are gone in the end.
    """
    places = []
    close = Channel.close

    def look_and_close(channel):
        if channel.folder not in places:
            places.append(channel.folder)
            found = [channel.folder.stat(), *(entry.stat() for entry in os.scandir(channel.folder))]
            assert {one.st_uid for one in found} == {0}
        close(channel)

    monkeypatch.setattr(Channel, "close", look_and_close)
    folder = Path(tempfile.mkdtemp(prefix="theirs-", dir="/var/tmp"))
    try:
        os.chown(folder, NOBODY, NOBODY)
        with Program(name, NOBODY) as program:
            target = look_at(program.pid)
            held = Attached(target, folder / "trace.hwt")
            assert detach(target) == f"the recording into {folder}/trace.hwt"
            held.close()
            assert program.look() == [0, "", False]
            assert program.finish() == ""
    finally:
        shutil.rmtree(folder)
    assert len(places) == 2
    assert not any(place.exists() for place in places)


@only_root
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("'x' * 9000000, ()", "no lease page"),
        ("chr(27) + ']0;owned' + chr(7), (os.open('/dev/null', 0),)", "no lease page"),
        ("'', (os.open(fifo, os.O_RDWR),)", "no lease page"),
        ("'', tuple(os.pipe() + os.pipe() + os.pipe())", "an answer that is not valid"),
        ("'', (os.memfd_create('free', 2),)", "no lease page"),
        ("7, ()", "closed the connection"),
    ],
)
def test_a_process_that_lies(tmp_path, answer, said):
    """A hostile answer is a clear error, with nothing of it on the terminal and no descriptor left."""
    lie = (
        "import os, sys, types\n"
        "fifo = '/var/tmp/headway-test-fifo-%d' % os.getpid()\n"
        "os.mkfifo(fifo)\n"
        "def attach(*_):\n"
        f"    return {answer}\n"
        "package, module = types.ModuleType('headway_agent'), types.ModuleType('headway_agent.recorder')\n"
        "package.recorder, module.attach, module.detach = module, attach, print\n"
        "sys.modules.update({'headway_agent': package, 'headway_agent.recorder': module})\n"
        "globals().update(locals())\n"
    )
    with Program("3.14", NOBODY) as program:
        program.run(lie)
        before = set(os.listdir("/proc/self/fd"))
        with pytest.raises(RecordingError, match=said) as caught:
            Attached(look_at(program.pid), tmp_path / "trace.hwt")
        assert caught.value.message.isprintable()
        assert set(os.listdir("/proc/self/fd")) == before
        Path(f"/var/tmp/headway-test-fifo-{program.pid}").unlink()


# ---------------------------------------------------------------- messages
@pytest.mark.parametrize("name", ASKED)
def test_a_stopped_process(tmp_path, name):
    """A stopped process is reported as stopped, at the start and while we wait."""
    with Program(name) as program:
        program.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(program.pid) == "T")
        done = run("attach", program.pid, "-o", tmp_path / "trace.hwt")
        assert (done.returncode, f"process {program.pid} is stopped" in done.stderr) == (7, True)
        assert f"kill -CONT {program.pid}" in done.stderr
        program.process.send_signal(signal.SIGCONT)
        assert program.look() == [0, "", False]


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("way", ["option", "environment"])
def test_a_process_that_does_not_let_itself_be_attached_to(tmp_path, name, way):
    """A process that forbids remote debugging is reported, with the option or variable that it was started with."""
    options = ["-X", "disable-remote-debug"] if way == "option" else []
    env = {**os.environ, "PYTHON_DISABLE_REMOTE_DEBUG": "1"} if way == "environment" else None
    with Program(name, options=options, env=env) as program:
        done = run("attach", program.pid, "-o", tmp_path / "trace.hwt")
        assert done.returncode == 7
        assert "PYTHON_DISABLE_REMOTE_DEBUG" in done.stderr
        assert "ptrace" not in done.stderr
        assert program.finish() == ""


def test_a_thread_is_no_process(tmp_path):
    """The id of a thread is reported as one, with its process."""
    with Program("3.14") as program:
        thread = next(task for task in os.listdir(f"/proc/{program.pid}/task") if task != str(program.pid))
        done = run("attach", thread, "-o", tmp_path / "trace.hwt")
        assert done.returncode == 7
        assert f"{thread} is a thread of process {program.pid}" in done.stderr


@only_root
@pytest.mark.parametrize("name", ["3.12", "3.14"])
def test_another_mount_namespace(tmp_path, name):
    """A process with files of its own is reported, and nothing is requested of it."""
    before = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
    with Program(name, before=before) as program:
        done = run("attach", program.pid, "-o", tmp_path / "trace.hwt")
        assert done.returncode == 7
        assert "has its own file system" in done.stderr
        assert program.finish() == ""


@pytest.mark.matrix("name")
@only_root
@pytest.mark.parametrize("name", ["3.12", "3.14"])
@pytest.mark.parametrize("kind", ["pid", "time"])
def test_namespaces_that_can_be_reached(tmp_path, name, kind):
    """A process in another PID or time namespace is recorded for longer than a lease lasts, and detached."""
    flags = ["-p", "-f", "--mount-proc"] if kind == "pid" else ["-T", "-f", "--monotonic", "100000"]
    with Program(name, before=["unshare", *flags]) as program:
        inside = int(Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()[0])
        held = Attached(look_at(inside), tmp_path / "trace.hwt")
        began = time.monotonic()
        wait_for(lambda: time.monotonic() - began > SPAN_S + 2)
        assert (held.ended, program.look()[0]) == (Ended.LIVE, 1)
        assert detach(look_at(inside)) == f"the recording into {tmp_path}/trace.hwt"
        held.close()
        assert program.finish() == ""


# ---------------------------------------------------------------- facts about CPython
@pytest.mark.parametrize("name", ASKED)
def test_where_the_offsets_are(name):
    """Our table of offsets agrees with the header that the interpreter was built from."""
    executable = Path(BY_NAME[name].executable)
    header = executable.parents[1] / "include" / f"python{name}" / "internal" / "pycore_debug_offsets.h"
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    text = re.sub(r"//.*", "", header.read_text())
    body = text[text.index("typedef struct _Py_DebugOffsets {") : text.index("} _Py_DebugOffsets;")]
    words, open_words = [], None
    for line in body.splitlines()[1:]:
        if re.match(r"\s*struct\s*\w*\s*\{", line):
            open_words = []
        elif found := re.match(r"\s*\}\s*(\w+);", line):
            words += [f"{found[1]}.{word}" for word in open_words]
            open_words = None
        elif found := re.match(r"\s*(?:uint64_t|char)\s+(\w+)", line):
            (words if open_words is None else open_words).append(found[1])
    version = tuple(map(int, name.split(".")))
    assert {word: words.index(word) for word in OFFSETS[version]} == OFFSETS[version]
    first = words.index("debugger_support.eval_breaker")
    fields = ("remote_debugger_support", "remote_debugging_enabled", "debugger_pending_call", "debugger_script_path")
    assert words[first + 1 :] == [f"debugger_support.{field}" for field in (*fields, "debugger_script_path_size")]


@pytest.mark.parametrize("name", ASKED)
def test_no_signal_is_lost_beside_a_request(name):
    """Signals that arrive while requests are made and undone are all handled."""
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'.'))\nprint('ready', flush=True)\n"
        "while True: sum(range(1000))"
    )
    with subprocess.Popen([BY_NAME[name].executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            version = tuple(map(int, name.split(".")))
            over = threading.Event()

            def ask():
                while not over.is_set():
                    request = Request(process.pid, version, b"/nowhere/headway/x/script.py")
                    request.cancel()
                    request.close()

            asking = threading.Thread(target=ask)
            asking.start()
            for _ in range(300):
                os.kill(process.pid, signal.SIGUSR1)
                assert select.select([process.stdout], [], [], LIMIT_S)[0]  # type: ignore[type-var]
                assert os.read(process.stdout.fileno(), 1) == b"."
            over.set()
            asking.join()
        finally:
            process.kill()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="inject.py is for x86-64")
@pytest.mark.parametrize("name", ["3.8", "3.12", "3.13"])
def test_killed_in_the_middle_of_an_injection(tmp_path, name):
    """A SIGKILL while the process's registers are changed is harmless: another process of ours restores them."""
    there, back = tmp_path / "there", tmp_path / "back"
    code = (
        "import os, sys, time\nfrom headway.live import inject\n"
        "call = inject._Tracee.call\n"
        "def slow(thread, *a, **o):\n"
        f"    open({str(there)!r}, 'w').close()\n"
        f"    while not os.path.exists({str(back)!r}): time.sleep(0.01)\n"
        "    return call(thread, *a, **o)\n"
        "inject._Tracee.call = slow\n"
        "inject.run_soon(int(sys.argv[1]), 'import sys; sys.told = True')\n"
    )
    with Program(name) as program:
        with subprocess.Popen([sys.executable, "-c", code, str(program.pid)]) as attaching:
            wait_for(there.exists)
            attaching.kill()
        # without that process, the debugger's end would have released it
        wait_for(lambda: state_of(program.pid) == "t")
        back.touch()
        wait_for(lambda: state_of(program.pid) != "t")
        program.run("import sys, time\nwhile not hasattr(sys, 'told'): time.sleep(0.001)")
        assert program.look() == [0, "", False]
        assert program.finish() == ""
