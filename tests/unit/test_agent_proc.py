"""The agent's reading of the kernel's figures: busy time and memory."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from headway_agent import proc

HERTZ = os.sysconf("SC_CLK_TCK")


def stat(*cores):
    """Return /proc/stat with (user, system, idle) ticks of each core; guest and steal time are not our work."""
    lines = ["cpu  1 2 3 4 5 6 7 8 9 10"]
    lines += [f"cpu{core} {user} 0 {system} {idle} 0 0 0 7 3 0" for core, (user, system, idle) in enumerate(cores)]
    return "\n".join([*lines, "intr 12345", "ctxt 99"])


@pytest.fixture
def said(monkeypatch):
    """Return a function that sets successive contents of /proc/stat, and a clock that advances by a second each time."""

    def said(*texts):
        answers, clock = iter(texts), iter(range(10**9, 10**12, 10**9))
        monkeypatch.setattr(proc, "read", lambda path: next(answers))
        monkeypatch.setattr(proc.time, "monotonic_ns", lambda: next(clock))

    return said


def test_each_stretch_has_the_busy_time_of_the_allowed_cores(said):
    """The busy time of a phase includes the allowed cores only; the third core is not ours."""
    second = HERTZ
    said(
        stat((0, 0, 0), (0, 0, 0), (0, 0, 0)),
        stat((second, 0, 0), (0, 0, second), (second, 0, 0)),
        stat((second, second, 0), (second // 2, 0, 2 * second - second // 2), (2 * second, 0, 0)),
        stat((2 * second, second, 0), (second // 2, 0, 3 * second - second // 2), (3 * second, 0, 0)),
    )
    course = proc.Course({0, 1})
    for phase in ("set-up", "timed", "timed"):
        course.mark(phase)

    assert course.stretches() == [
        {"phase": "set-up", "until_s": 1, "busy_s": 1},
        {"phase": "timed", "until_s": 2, "busy_s": 1.5},
        {"phase": "timed", "until_s": 3, "busy_s": 1},
    ]
    assert course.utilisation("timed") == {0: 1, 1: 0.25}


def test_without_proc_there_is_no_course(monkeypatch):
    """A launch goes on without /proc, and has no course."""

    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(proc, "read", refuse)
    course = proc.Course({0})
    course.mark("timed")

    assert (course.stretches(), course.utilisation("timed")) == ([], {})


def test_the_largest_resident_set_is_not_that_of_the_launcher():
    """A process that a large one has started tells its own size: exec(2) leaves it the launcher's in getrusage(2)."""
    large = bytearray(b"1") * 200_000_000
    code = "import sys; sys.path[:0] = sys.argv[1:]; import headway_agent.proc as proc; print(proc.max_rss_bytes())"
    command = [sys.executable, "-c", code, str(Path(proc.__file__).parents[1])]
    told = int(subprocess.run(command, capture_output=True, check=True).stdout)

    assert 1_000_000 < told < len(large) // 2
    assert proc.max_rss_bytes() > len(large)


def test_the_cpu_time_of_a_living_child_is_ours():
    """A server that a workload has started works for the launch, also while it is not reaped."""
    spins = "import time\nwhile time.process_time() < 0.1: pass\nprint('spun', flush=True)\ninput()"
    before_s, own_s = proc.own_busy_s(), time.process_time()
    with subprocess.Popen([sys.executable, "-c", spins], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        alive_s = proc.own_busy_s() - before_s - (time.process_time() - own_s)
        child.communicate(b"\n")

    assert alive_s > 0.05
    assert proc.own_busy_s() - before_s > 0.1


def test_a_programs_own_module_resource_is_not_touched(tmp_path):
    """A user's folder goes before the standard library on the import path, as that of a script does."""
    (tmp_path / "resource.py").write_text("OWN = 1\n")
    agent = Path(proc.__file__).parents[1]
    code = (
        "from headway_agent import proc; assert proc.own_busy_s() > 0; assert len(proc.context_switches()) == 2; "
        "import resource; assert resource.OWN == 1"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(agent), str(tmp_path)])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
