"""A policy of the user's own: the guide's example is a lottery, simulated and in a real program."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_programs import LIMIT_S, unobserved

from headway.errors import SchedulingError
from headway.native import find_policy

ROOT = Path(__file__).parents[2]
LOTTERY = ROOT / "docs" / "guides" / "examples" / "lottery.c"
HEADWAY = [str(Path(sys.executable).with_name("headway"))]

pytestmark = pytest.mark.slow

SCENARIO = """
cores = 2
duration_s = 20
[role.first]
program = [{compute = true}]
[role.second]
program = [{compute = true}]
[role.favoured]
priority = -5
program = [{compute = true}]
[role.tick]
program = [{begin = true}, {sleep_ms = 10}, {hold_us = 20}, {done = true}]
"""

COMPUTES = """
import threading, time
until = time.monotonic() + 2
rounds = [0] * 3
def compute(place):
    while time.monotonic() < until:
        for _ in range(2000): pass
        rounds[place] += 1
threads = [threading.Thread(target=compute, args=(place,)) for place in range(3)]
for thread in threads: thread.start()
while time.monotonic() < until: time.sleep(0.01)
for thread in threads: thread.join()
print(*rounds)
"""


def run(*arguments):
    """Run the command line."""
    return called(HEADWAY, arguments)


def called(headway, arguments):
    """Run a command line of Headway that is begun by other words than usual."""
    return subprocess.run(
        [*headway, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False, env=unobserved()
    )


SHARES_AT_ONCE = """
import sys
import headway.sim.run as run
from headway.cli import main
run._WORTH_A_PROCESS_S = 0
sys.exit(main())
"""
"""However fast the machine is, processes share the runs that are left after the first one."""


def built(source, library):
    """Compile a policy against the public header, and return its path."""
    compiler = shutil.which("cc")
    assert compiler
    headers = str(ROOT / "native" / "include")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-I", headers, "-o", str(library), str(source)], check=True)
    return str(library)


@pytest.fixture(scope="module")
def lottery(tmp_path_factory):
    """Return the path of the guide's example, compiled."""
    return built(LOTTERY, tmp_path_factory.mktemp("lottery") / "lottery.so")


def test_each_waiter_of_the_lottery_has_the_chance_of_its_weight(lottery, tmp_path):
    """In virtual time equal threads have equal shares, priority -5 has its weight of them, and no thread starves."""
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)

    done = run("simulate", str(file), "--policy", lottery, "--calibration", "preset", "--seeds", "1", "--json")

    parts = json.loads(done.stdout)["points"][0]["parts"]
    held = {name: parts[name]["held_share"]["median"] for name in ("first", "second", "favoured")}
    assert held["second"] == pytest.approx(held["first"], rel=0.1)
    assert held["favoured"] == pytest.approx(1.25**5 * held["first"], rel=0.1)
    assert max(part["worst_wait_ms"]["median"] for part in parts.values()) < 300


def test_the_lottery_starves_no_thread_of_a_real_program(lottery):
    """The watchdog does not remove the policy, and three CPU-bound threads have about equal shares."""
    done = run("run", "--policy", lottery, "--python", sys.executable, "-c", COMPUTES)

    rounds = [int(word) for word in done.stdout.split()]
    assert done.stderr == ""
    assert min(rounds) > 0.5 * max(rounds)


def test_why_names_the_policy_and_not_its_file(lottery):
    """The line at the end has the policy's own name, as the watchdog and the report of a trace have it."""
    done = run("run", "--why", "--policy", lottery, "--python", sys.executable, "-c", "pass")

    assert re.fullmatch(r"headway: process \d+: lottery .*\n", done.stderr), done.stderr


INCOMPLETE = """
#include "headway/policy.h"
static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) { thread->key = thread->ready_ns; }
static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) { return 0; }
static const struct hw_policy_option options[] = {{0}};
const struct hw_policy headway_policy = {.abi = HW_POLICY_ABI, FIELDS};
"""
FIELDS = {
    "name": '.name = "mine"',
    "options": ".options = options",
    "ready": ".ready = ready",
    "patience": ".patience = patience",
}


@pytest.mark.parametrize("lacks", FIELDS)
def test_a_policy_that_lacks_a_field_is_told_which(tmp_path, lacks):
    """Each of the fields that the header requires is named if it is the one that is missing."""
    fields = ", ".join(text for name, text in FIELDS.items() if name != lacks)
    source = tmp_path / "mine.c"
    source.write_text(f"#define FIELDS {fields}\n{INCOMPLETE}")

    with pytest.raises(SchedulingError, match=rf"^the headway_policy of {tmp_path}/mine.so lacks \.{lacks}\b"):
        find_policy(built(source, tmp_path / "mine.so"))


WITH_OPTIONS = """
#include "headway/policy.h"
static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) { thread->key = thread->ready_ns; }
static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) { return 0; }
static const struct hw_policy_option options[] = {{"a_us", 1, 9, 5, ""}, OPTION, {0}};
const struct hw_policy headway_policy = {.abi = HW_POLICY_ABI, .name = "mine", .options = options, .ready = ready,
                                         .patience = patience};
"""


@pytest.mark.parametrize(("option", "name"), [('{"b_us", 1, 9, 0, ""}', "b_us"), ('{"a_us", 1, 9, 5, ""}', "a_us")])
def test_an_option_that_contradicts_itself_is_told(tmp_path, option, name):
    """A preset out of the option's own limits, or two options of one name: the policy is refused."""
    source = tmp_path / "mine.c"
    source.write_text(f"#define OPTION {option}\n{WITH_OPTIONS}")

    with pytest.raises(SchedulingError, match=f"^the option {name} of {tmp_path}/mine.so has the name of another one"):
        find_policy(built(source, tmp_path / "mine.so"))


@pytest.mark.parametrize(("count", "is_refused"), [(8, False), (9, True), (20, True)])
def test_more_options_than_a_gil_has_room_for_are_refused(tmp_path, count, is_refused):
    """By `run` as by `simulate`: an option that is dropped would have no effect. An option need not describe itself."""
    options = ", ".join(f'{{"{name}_us", 1, 9, 5}}' for name in "bcdefghijklmnopqrstuvw"[: count - 1])
    source = tmp_path / "mine.c"
    source.write_text(f"#define OPTION {options}\n{WITH_OPTIONS}")
    library = built(source, tmp_path / "mine.so")

    for done in (
        run("run", "--policy", library, "--python", sys.executable, "-c", "print('ran')"),
        run("simulate", "convoy", "--policy", library, "--calibration", "preset", "--seeds", "1"),
    ):
        assert (done.returncode != 0) is is_refused
        assert (f"error: the headway_policy of {library} has more than 8 options" in done.stderr) is is_refused
        assert "Traceback" not in done.stderr


def test_a_trace_under_an_own_policy_is_replayed_with_its_library_only(lottery, tmp_path):
    """Without the library, nothing can be predicted; with it, the replay has the options of the trace."""
    program, trace = tmp_path / "app.py", tmp_path / "app.hwt"
    program.write_text(COMPUTES)
    done = run("run", "--policy", lottery, "--option", "turn_us=7000", "--trace", str(trace), str(program))
    assert done.returncode == 0, done.stderr
    for change in ([], ["--policy", "none"], ["--no-gil"]):
        refused = run("whatif", str(trace), *change, "--calibration", "preset", "--seeds", "1")
        assert "error: the trace was recorded under the policy lottery, which does not come with" in refused.stderr
        assert refused.stdout == ""
    found = run("whatif", str(trace), "--policy", lottery, "--calibration", "preset", "--seeds", "1", "--json")

    assert found.returncode == 0, found.stderr
    assert any("lottery had turn_us=7000 while" in one for one in json.loads(found.stdout)["rests_on"])


@pytest.mark.parametrize(
    ("begins", "told"),
    [("abort()", "ends by signal 6"), ("_exit(0)", "ends with code 0"), ('(void)!write(1, "hello", 5)', "")],
)
def test_a_library_that_ends_its_process_is_refused_before_the_program_runs(tmp_path, begins, told):
    """Code of a library runs when it is loaded; what it prints is no error."""
    source = tmp_path / "mine.c"
    head = f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) static void begin(void) {{ {begins}; }}\n"
    fields = ", ".join(FIELDS.values())
    source.write_text(f"{head}#define FIELDS {fields}\n{INCOMPLETE}")

    done = run("run", "--policy", built(source, tmp_path / "mine.so"), "--python", sys.executable, "-c", "print('ran')")

    assert done.returncode == (8 if told else 0)
    assert done.stdout == ("" if told else "helloran\n")
    assert told in done.stderr
    assert ("error: a process that loads" in done.stderr) is bool(told)


FAULTY = """
#include <stdlib.h>
#include "headway/policy.h"
static int deeper(volatile char *at) { volatile char more[4096]; more[0] = *at; return deeper(more) + more[1]; }
static void fault(struct hw_policy_gil *gil) {
    volatile int none = 0;
    if (FAULT == 0) { for (;;) { none++; } }
    if (FAULT == 1) { *(volatile int *)(long)none = 1; }
    if (FAULT == 2) { gil->own[0] = gil->own[1] / none; }
    if (FAULT == 3) { abort(); }
    if (FAULT == 4) { volatile char first = 0; gil->own[0] = deeper(&first); }
}
static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) {
    if (++gil->own[1] > 20) { fault(gil); }
    thread->key = ++gil->own[0];
}
static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    int64_t since_ns = waiter->ready_ns > holder->acquired_ns ? waiter->ready_ns : holder->acquired_ns;
    return since_ns + gil->interval_ns - gil->now_ns;
}
static const struct hw_policy_option options[] = {{NULL, 0, 0, 0, NULL}};
const struct hw_policy headway_policy = {.abi = HW_POLICY_ABI, .name = "faulty", .options = options,
                                         .ready = ready, .patience = patience};
"""


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (0, "made no step for 3 s of CPU time in a call of the policy faulty"),
        (1, "crashed (SIGSEGV) in or after a call of the policy faulty"),
        (2, "crashed (SIGFPE) in or after a call of the policy faulty"),
        (3, "crashed (SIGABRT) in or after a call of the policy faulty"),
        (4, "crashed (SIGSEGV) in or after a call of the policy faulty"),
    ],
)
def test_a_faulty_policy_ends_its_simulation_with_an_error(tmp_path, fault, told):
    """A policy that loops, crashes, aborts or uses up its stack is named; the command neither hangs nor dies silently."""
    source = tmp_path / "faulty.c"
    source.write_text(f"#define FAULT {fault}\n{FAULTY}")

    done = run("simulate", "convoy", "--policy", built(source, tmp_path / "faulty.so"), "--calibration", "preset")

    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: the simulation {told}\n\nhint: " in done.stderr


def test_a_faulty_policy_in_one_of_several_processes_is_told(tmp_path):
    """The process that simulated has named the policy; the command tells that it ended, and how far it came."""
    source = tmp_path / "faulty.c"
    source.write_text(f"#define FAULT (gil->interval_ns < 100000)\n{FAULTY}".replace("FAULT == 0", "0"))
    library = built(source, tmp_path / "faulty.so")
    sweep = [
        "--sweep",
        "switch_interval_s=0.005,0.004,0.003,0.002,0.001,0.00005",
        "--seeds",
        "3",
        "--duration",
        "3",
        "--jobs",
        "2",
    ]

    words = ("simulate", "t2", "--policy", library, "--calibration", "preset", *sweep)
    done = called([sys.executable, "-c", SHARES_AT_ONCE], words)

    assert done.returncode != 0
    assert "crashed (SIGSEGV) in or after a call of the policy faulty" in done.stderr
    assert "error: a process that simulated ended before its run was over, after " in done.stderr
    assert "Traceback" not in done.stderr
