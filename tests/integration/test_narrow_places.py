"""Programs in confined places run as without us: no /proc, nothing writable, tight limits.

If we cannot do our work there, one line says so. Seccomp filters are in test_restricted.
"""

import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from real_programs import LIMIT_S

from headway.host.interpreters import discover
from headway.live.collect import collecting
from headway.live.launch import environment, scheduled_environment

pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys, threading, time
done = []
def work():
    time.sleep(0.01)
    done.append(sum(range(1000)))
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
for one in threads:
    one.start()
for one in threads:
    one.join()
try:
    os.stat("/not/there")
except FileNotFoundError as error:
    print("ran", len(done), error.errno)
sys.exit(3)
"""

WANTED = ("3.8", "3.11", "3.13", "3.13t", "3.14")
INTERPRETERS = {one.name: one.executable for one in reversed(discover()[0]) if one.name in WANTED}


def unused_uid() -> int:
    """Return the id of a user who runs nothing else: limits on processes count all those of a user.

    The kernel counts over all containers, in which process ids are the same. So the number is drawn, for each test.
    """
    return 1_000_000 + secrets.randbelow(1 << 30)


def namespaces() -> str:
    """Return why no mount namespace can be made here, or ""."""
    if os.geteuid() != 0:
        return "needs root, to mount over /proc in a namespace of its own"
    if shutil.which("unshare") is None:
        return "needs unshare (util-linux)"
    done = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    return f"no mount namespace here: {done.stderr.strip()}" if done.returncode else ""


NO_NAMESPACES = namespaces()
needs_namespaces = pytest.mark.skipif(bool(NO_NAMESPACES), reason=NO_NAMESPACES or "-")


@pytest.fixture(params=["traced", "scheduled"])
def environment_of(request, tmp_path):
    """Yield a program's environment, the way of observing it, and the path of the trace that it may leave."""
    trace = tmp_path / "app.hwt"
    if request.param == "traced":
        with collecting(trace, max_bytes=64 << 20) as door:
            yield environment(door.environment()), "traced", trace
    else:
        yield scheduled_environment("fair"), "scheduled", trace


def run(command, threads=2, env=None, program=PROGRAM, words=(), **options):
    return subprocess.run(
        [*command, "-c", program, str(threads), *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        **options,
    )


def check(bare, ours, what, trace, *, must_fail=False):
    """Assert that the program did the same, and that one line on stderr says so if it is not recorded or scheduled."""
    said = [line for line in ours.stderr.splitlines() if line.startswith("headway: ")]
    rest = [line for line in ours.stderr.splitlines() if not line.startswith("headway: ")]

    assert bare.returncode == 3, bare.stderr
    assert (ours.returncode, ours.stdout, rest) == (bare.returncode, bare.stdout, bare.stderr.splitlines())
    assert len(said) <= 1, said
    if must_fail:
        assert said
        assert f"is not {what}: " in said[0]
    if what == "traced" and not said:
        deadline_s = time.monotonic() + 60  # the collector creates the file, and then writes it
        while not (trace.exists() and trace.stat().st_size > 0):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)


def in_namespace(mounts):
    """Return the beginning of a command that runs the rest in a mount namespace, after some shell commands."""
    return ["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh"]


@needs_namespaces
@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("hidden", ["mount -t tmpfs none /proc", "umount -l /proc"], ids=["empty", "unmounted"])
def test_without_proc(name, hidden, environment_of):
    """A program runs as usual in a container without /proc, and the line that says what is missing names /proc."""
    env, what, trace = environment_of
    command = [*in_namespace(hidden), INTERPRETERS[name]]
    ours = run(command, env=env)

    check(run(command), ours, what, trace, must_fail=True)
    assert f"is not {what}: Headway needs /proc, and cannot read /proc/self/maps: " in ours.stderr


@needs_namespaces
@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", INTERPRETERS)
def test_where_nothing_can_be_written(name, environment_of):
    """A program runs as usual with everything mounted read-only; the collector is outside."""
    env, what, trace = environment_of
    read_only = "mount --bind / /mnt && mount -o remount,bind,ro /mnt && mount --rbind /proc /mnt/proc && mount --rbind /dev /mnt/dev"
    command = ["unshare", "-m", "sh", "-c", f'{read_only} && exec chroot /mnt "$@"', "sh", INTERPRETERS[name]]

    check(run(command), run(command, env=env), what, trace)


LIMITS = {
    "address space": (resource.RLIMIT_AS, 384 << 20),
    "open files": (resource.RLIMIT_NOFILE, 16),
    "hardly any open files": (resource.RLIMIT_NOFILE, 4),
    "size of files": (resource.RLIMIT_FSIZE, 64 << 10),
    "no files": (resource.RLIMIT_FSIZE, 0),
    "locked memory": (resource.RLIMIT_MEMLOCK, 0),
    "stack": (resource.RLIMIT_STACK, 256 << 10),
    "signals that wait": (resource.RLIMIT_SIGPENDING, 0),
}


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("limit", LIMITS)
def test_tight_limits(name, limit, environment_of):
    """A program runs as usual under limits that were set before it began."""
    env, what, trace = environment_of
    kind, value = LIMITS[limit]

    def restrict():
        resource.setrlimit(kind, (value, value))

    options = {"preexec_fn": restrict, "stdin": subprocess.DEVNULL}
    bare = run([INTERPRETERS[name]], 1, **options)
    if bare.returncode != 3:
        pytest.skip(f"Python {name} itself does not run in so little: {bare.stderr.strip().splitlines()[-1:]}")

    check(bare, run([INTERPRETERS[name]], 1, env=env, **options), what, trace)


@pytest.mark.parametrize("name", [name for name in ("3.13", "3.14") if name in INTERPRETERS])
def test_hardly_any_address_space(name, environment_of):
    """A program with address space for itself alone keeps it, because we use none."""
    env, what, trace = environment_of

    def restrict():
        resource.setrlimit(resource.RLIMIT_AS, (60 << 20, 60 << 20))

    command = [INTERPRETERS[name]]
    check(run(command, 1, preexec_fn=restrict), run(command, 1, env=env, preexec_fn=restrict), what, trace)


LIMITS_ITSELF = """
import re, resource, sys
with open("/proc/self/status") as status:
    there = int(re.search("{figure}:\\s+(\\d+)", status.read())[1]) << 10
most = int(sys.argv[2]) if len(sys.argv) > 2 else there + {room}
resource.setrlimit(resource.{limit}, (most, most))
held = [bytearray(1 << 20) for _ in range(40)]
print(most)
"""
ROOM_MIB = {"RLIMIT_AS": 190, "RLIMIT_DATA": 70}
"""What a program that limits itself leaves itself. It uses 40 itself, and each of its threads has a stack of 8. Of address
space the C library takes 64 more for the first thread besides the main one, which is ours."""
FIGURES = {"RLIMIT_AS": "VmSize", "RLIMIT_DATA": "VmData"}


@pytest.mark.matrix("name")
@pytest.mark.parametrize("name", INTERPRETERS)
@pytest.mark.parametrize("limit", ROOM_MIB)
def test_a_program_that_limits_itself(name, limit, environment_of):
    """A program can lower its memory limit while it is recorded or scheduled, because we need little."""
    env, what, trace = environment_of
    program = LIMITS_ITSELF.format(limit=limit, figure=FIGURES[limit], room=ROOM_MIB[limit] << 20) + PROGRAM
    bare = run([INTERPRETERS[name]], program=program)
    most = bare.stdout.split()[0]

    check(bare, run([INTERPRETERS[name]], env=env, program=program, words=[most]), what, trace)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user who runs nothing else")
@pytest.mark.parametrize("threads", [0, 1, 2])
def test_hardly_any_threads(threads, environment_of):
    """A program runs as usual with a limit of as many threads as it has, and none for us."""
    env, what, trace = environment_of
    python = "/usr/bin/python3"
    if not os.access(python, os.X_OK):
        pytest.skip(f"needs a Python that every user may run: there is no {python}")

    uid = unused_uid()

    def restrict():
        resource.setrlimit(resource.RLIMIT_NPROC, (threads + 1, threads + 1))
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)

    def run_there(env=None):
        try:
            return run([python], threads, env=env, preexec_fn=restrict)
        except BlockingIOError:  # from the kernel, at exec: seen on a busy machine, with a user who had no process
            pytest.skip(f"{python} itself is refused there, before any of it runs")

    bare = run_there()
    if bare.returncode != 3:
        pytest.skip(f"{python} itself does not run there: {bare.stderr.strip().splitlines()[-1:]}")
    if not Path(env["HEADWAY_NATIVE"]).exists() or "/root/" in env["PYTHONPATH"]:
        pytest.skip("this checkout lies where no other user may read it")

    check(bare, run_there(env), what, trace)


def test_a_folder_that_is_gone(environment_of, tmp_path):
    """A program runs as usual if its working directory was removed before it began."""
    env, what, trace = environment_of

    def leave():
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)

    check(run([sys.executable], preexec_fn=leave), run([sys.executable], env=env, preexec_fn=leave), what, trace)


def test_a_folder_that_is_gone_is_named_as_the_cause(tmp_path):
    """A command that needs the current folder says that it was removed, and not that a disk is full."""
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'headway', 'trace', '-c', ''])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "the current folder has been removed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_becomes_too_large_does_not_end_the_collector():
    """The signal for that is ignored by the collector and the watcher, as Python ignores it; the write then fails."""
    code = "import os, signal; from headway.live.detached import alone; alone(b'x'); os._exit(signal.getsignal(signal.SIGXFSZ) != 1)"

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
