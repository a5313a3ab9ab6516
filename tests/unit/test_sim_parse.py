"""Scenario files: their meaning, and every error message about a senseless one."""

import re
import textwrap
from pathlib import Path

import pytest

from headway.errors import ScenarioError, UsageError
from headway.sim import library
from headway.sim.parameters import PARAMETERS
from headway.sim.parse import parse, read
from headway.sim.program import WORDS
from headway.sim.scenario import Client, Process, Queue, Role, Semaphore, Step, walk
from headway.sim.times import Times

HOLD = "program = [{hold_us = 8}]\n"
ROLE = f"[role.a]\n{HOLD}"
SERVER = '[role.s]\nprogram = [{receive = "r"}, {reply = true}]\n'
CLIENT = '[client.c]\nport = "r"\n'


def test_a_whole_scenario():
    """Every key has its place, units are in the names, and omitted keys have preset values."""
    found = parse(
        """
title = "all of it"
cores = 4
placement = "split"
switch_interval_ms = 1
policy = "fair"
options = {latency_us = 20000}
duration_s = 3
warm_ms = 10
busy = "worker"
locks = ["state"]

[process.other]
gil = false
slow_down = 0.1

[queue.jobs]
capacity = 100

[semaphore.turn]
initial = 1

[role.server]
program = [
    {receive = "requests"},  # {hold_us = 1}
    {hold_us = {exponential = 8}},
    {put = "jobs"}, {reply = true},
]

[role.worker]
threads = 3
process = "other"
priority = 5
urgent = true
cores = [1, 0]
begin_ms = 1
stagger_us = 2
program = [
    {get = "jobs"},
    {loop = 2, do = [
        {lock = "state"}, {call_ms = 1}, {unlock = "state"},
    ]},
    {done = true},
]

[client.load]
port = "requests"
connections = 4
think_ms = {uniform = [1, 3]}
work_ns = 80
""",
        name="app",
        source="app.toml",
    )

    assert (found.name, found.title, found.source, found.busy) == ("app", "all of it", "app.toml", "worker")
    assert (found.cores, found.placement, found.duration_ns, found.warm_ns) == (4, "split", 3 * 10**9, 10**7)
    options = (("latency_us", 20000),)
    assert found.processes == (
        Process("main", switch_interval_ns=1_000_000, policy="fair", options=options),
        Process("other", gil=False, switch_interval_ns=1_000_000, policy="fair", options=options, slow_down=0.1),
    )
    assert found.locks == ("state",)
    assert found.queues == (Queue("jobs", 100),)
    assert found.semaphores == (Semaphore("turn", 1),)
    server, worker = found.roles
    assert server.program == (
        Step("receive", target="requests", line=25),
        Step("hold", times=Times("exponential", (8000.0,)), line=26),
        Step("put", target="jobs", line=27),
        Step("reply", line=27),
    )
    body = (
        Step("lock", target="state", line=41),
        Step("call", times=Times.constant(1e6), line=41),
        Step("unlock", target="state", line=41),
    )
    program = (Step("get", target="jobs", line=39), Step("loop", count=2, body=body, line=40), Step("done", line=43))
    assert worker == Role(
        "worker", program, 3, "other", cores=(0, 1), priority=5, urgent=True, begin_ns=1_000_000, stagger_ns=2_000
    )
    assert found.clients == (Client("load", "requests", 4, think=Times("uniform", (1e6, 3e6)), work_ns=80),)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("title = 1\n" + ROLE, "title is 1, expected a text", ""),
        ("x = = 1", "app.toml is not TOML", "strings need quotes"),
        ("cores = 2", "app.toml has no role, expected [role.NAME] with a program", "--show convoy"),
        ("tilte = 'x'\n" + ROLE, "tilte is not a known key", "did you mean `title`?"),
        ("duration = 3\n" + ROLE, "duration is not a known key", "did you mean `duration_us`?"),
        ("cores = 65\n" + ROLE, "cores is 65, expected a whole number from 1 to 64", ""),
        ("cores = true\n" + ROLE, "cores is true, expected a whole number from 1 to 64", ""),
        ("placement = 'here'\n" + ROLE, "placement is 'here', expected 'free' or 'split' or 'same'", ""),
        (
            "cores = 1\nplacement = 'split'\n" + ROLE,
            "placement is 'split' and cores is 1, expected 2 cores or more",
            "",
        ),
        ("gil = 'off'\n" + ROLE, "gil is 'off', expected true or false", ""),
        ("duration_s = 0\n" + ROLE, "duration is not a plain time, expected one number above 0", ""),
        ("duration_s = 1\nduration_ms = 2\n" + ROLE, "duration is given in ms and in s, expected one of them", ""),
        ("slow_down = -1\n" + ROLE, "slow_down is -1, expected a number from 0 to 100", ""),
        ("options = {spin_us = 3}\n" + ROLE, "options has spin_us, but the scenario has no policy", ""),
        ("options = {spin_us = 'x'}\n" + ROLE, "options is {'spin_us': 'x'}, expected a table of whole numbers", ""),
        ("locks = ['a', 'a']\n" + ROLE, "locks is ['a', 'a'], expected a list of different names", ""),
        ("role = 3\n", "role is 3, expected tables, as [role.NAME]", ""),
        ("busy = 'b'\n" + ROLE, "busy is 'b', but no role has that name", "known are a"),
        (f"[process.none]\n{ROLE}", "process.none is reserved for processes without Python, expected another name", ""),
        ("[role.a]\n", "role.a.program is missing, expected a list of steps", ""),
        ("[role.a]\nprogram = []\n", "role.a.program is [], expected a list of steps", ""),
        (ROLE + "treads = 2\n", "role.a.treads is not a known key", "did you mean `threads`?"),
        (ROLE + "threads = -1\n", "role.a.threads is -1, expected a whole number from 0 to 20000", ""),
        (ROLE + "process = 'x'\n", "role.a.process is 'x', but no process has that name", "known are main"),
        (ROLE + "process = 'none'\nprocesses = true\n", "role.a.processes is true, but its process is 'none'", ""),
        (ROLE + "cores = [2]\n", "role.a.cores is [2], expected a list of cores from 0 to 1", ""),
        (ROLE + "priority = 20\n", "role.a.priority is 20, expected a whole number from -20 to 19", ""),
        ("[role.a]\nprogram = [3]\n", "role.a.program[0] is 3, expected a step as {hold_us = 8}", ""),
        ("[role.a]\nprogram = [{hold = 3}]\n", "role.a.program[0].hold is not a step", "add the unit: `hold_us`"),
        ("[role.a]\nprogram = [{hodl_us = 3}]\n", "role.a.program[0].hodl_us is not a step", "did you mean `hold_us`?"),
        (
            "[role.a]\nprogram = [{hold_us = -3}]\n",
            "role.a.program[0].hold_us is -3, expected a number of 0 or more",
            "",
        ),
        (
            "[role.a]\nprogram = [{hold_us = nan}]\n",
            "role.a.program[0].hold_us is nan, expected a number of 0 or mo",
            "",
        ),
        ("[role.a]\nprogram = [{hold_us = {uniform = [2, 1]}}]\n", "role.a.program[0].hold_us is {'uniform': [2,", ""),
        ("[role.a]\nprogram = [{hold_us = {lognormal = 2}}]\n", "role.a.program[0].hold_us is {'lognormal': 2},", ""),
        (
            "[role.a]\nprogram = [{hold_us = {normal = 2}}]\n",
            "role.a.program[0].hold_us is {'normal': 2}, expected",
            "",
        ),
        (
            "[role.a]\nprogram = [{hold_us = 1, call_us = 1}]\n",
            "role.a.program[0] has hold_us and call_us, expected",
            "",
        ),
        ("[role.a]\nprogram = [{done = false}]\n", "role.a.program[0].done is False, expected true", ""),
        ("[role.a]\nprogram = [{lock = 3}]\n", "role.a.program[0].lock is 3, expected a name", ""),
        ("[role.a]\nprogram = [{loop = 3}]\n", "role.a.program[0] has loop, expected {loop = 10, do = [...]}", ""),
        (
            "[role.a]\nprogram = [{loop = 0, do = [{done = true}]}]\n",
            "role.a.program[0].loop is 0, expected a number of turns",
            "",
        ),
        ("[role.a]\nprogram = [{loop = 2, do = []}]\n", "role.a.program[0].do is [], expected a list of steps", ""),
        (
            "[role.a]\nprogram = [{lock = 'l'}]\n",
            "role.a has lock = 'l', but no lock has that name",
            "in locks",
        ),
        (
            "[role.a]\nprogram = [{put = 'q'}]\n",
            "role.a has put = 'q', but no queue has that name",
            "[queue.NAM",
        ),
        ("[role.a]\nprogram = [{done = true}]\n", "role.a.program takes no time, so it never ends", "repeats = false"),
        (
            "[role.a]\nprogram = [{compute = true}, {done = true}]\n",
            "role.a has compute and then done, which never ",
            "",
        ),
        (
            f"[role.a]\nprogram = [{', '.join(['{every_us = 1}'] * 5)}]\n",
            "role.a has 5 steps `every`, expected at most 4",
            "",
        ),
        (
            "[role.a]\nprogram = [{every_us = {exponential = 1}}]\n",
            "role.a has a step `every` with a distribution, expected a number",
            "",
        ),
        ("[role.a]\nprogram = [{hold_us = 1}, {reply = true}]\n", "role.a has a reply without a receive before it", ""),
        ("[role.a]\nprogram = [{answer_us = 1}, {send = true}]\n", "role.a has an answer without a send before it", ""),
        (SERVER, "role.s has receive = 'r', but no client uses that port", "add a [client.NAME] with that port"),
        (ROLE + CLIENT, "client.c.port is 'r', but no role receives from it", ""),
        (ROLE + "[client.c]\n", "client.c.port is missing, expected the port that a role receives from", ""),
        (SERVER + CLIENT + "rate_per_s = 3\nthink_ms = 1\n", "client.c has rate_per_s and think, expected one of", ""),
        (SERVER + CLIENT.replace(".c", ".s"), "a role and a client both have the name 's', expected different", ""),
        (
            SERVER + "threads = 3\n" + CLIENT + "connections = 2\nthread_per_connection = true\n",
            "client.c.thread_per_connection is true, and role.s.threads is 3, expected a thread for each",
            "leave out `threads`",
        ),
        (
            SERVER + SERVER.replace(".s", ".t") + CLIENT + "thread_per_connection = true\n",
            "client.c.thread_per_connection is true, and 2 roles receive from 'r', expected one",
            "",
        ),
        ("[queue.q]\n[role.a]\nprogram = [{get = 'q'}]\n", "a step has get = 'q', but no step puts anything into", ""),
        ("[queue.q]\ncapacity = -1\n" + ROLE, "queue.q.capacity is -1, expected a whole number from 0 to", ""),
        ("[semaphore.s]\n[role.a]\nprogram = [{take = 's'}]\n", "a step has take = 's', but no step posts to that", ""),
        (
            "locks = ['l']\n[role.a]\nprogram = [{unlock = 'l'}, {hold_us = 1}, {lock = 'l'}]\n",
            "role.a has unlock = 'l', and no role has a lock before it: Python raises RuntimeError",
            "write {lock = 'l'} before it",
        ),
        (
            "locks = ['l']\n[role.a]\nprogram = [{lock = 'l'}, {unlock = 'l'}, {unlock = 'l'}, {hold_us = 1}]\n",
            "role.a has unlock = 'l', and no role has a lock since the unlock before it",
            "use a semaphore",
        ),
        (ROLE + "threads = 20001\n", "role.a.threads is 20001, expected a whole number from 0 to 20000", ""),
        (
            "switch_interval_ns = 999\n" + ROLE,
            "the switch interval of process 'main' is 999 ns, expected 1 us or more",
            "switch_interval_ms = 5",
        ),
        (ROLE + "threads = 300\nprocesses = true\n", "there are 301 processes, expected 255 at most", ""),
    ],
)
def test_complaints(text, message, hint):
    """An error names the key and its value, what was expected, and a hint; its exit code is that of bad usage."""
    with pytest.raises(ScenarioError) as caught:
        parse(text, name="app", source="app.toml")

    assert message in caught.value.message
    assert hint in caught.value.hint
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2


def test_a_lock_may_be_handed_over():
    """As with threading.Lock, a role may unlock a lock that another role locks."""
    text = """
locks = ["l"]
[role.a]
program = [{lock = "l"}, {hold_us = 1}]
[role.b]
program = [{sleep_ms = 1}, {unlock = "l"}]
"""
    assert parse(text, name="app").locks == ("l",)


def test_a_file_that_is_not_there(tmp_path):
    """A file that does not exist is named."""
    with pytest.raises(ScenarioError, match=r"the scenario .*none\.toml cannot be read: No such file"):
        read(tmp_path / "none.toml")


def test_a_policys_path_begins_at_the_file(tmp_path):
    """A policy's relative path begins at the folder of the scenario."""
    (tmp_path / "app.toml").write_text(f'policy = "./mine.so"\n{ROLE}')

    found = read(tmp_path / "app.toml")

    assert found.processes[0].policy == str(tmp_path / "mine.so")
    assert (found.name, found.source) == ("app", "app.toml")


def test_lines_are_left_out_where_they_cannot_be_told():
    """A program that is written in an unusual way is read, without its lines."""
    found = parse("[[role.a.program]]\nhold_us = 3\n", name="app")

    assert found.roles[0].program == (Step("hold", times=Times.constant(3000.0)),)


def test_the_built_in_scenarios_are_all_there():
    """The built-in scenarios are all there, T1 to T13 in order, each with a title and its steps' lines.

    The others are the lab's convoy, ccbench, published cases, and one thread alone.
    """
    names = library.names()

    cases = [name for name in names if name.startswith("t")]
    assert set(names) >= {"convoy", "serial", "ccbench-latency", "ccbench-bandwidth", "ccbench-throughput"}
    assert set(names) >= {"rustypot", "rustypot-holds", "sglang"}
    assert cases == sorted(cases, key=lambda name: (int(name.split("-")[0][1:]), name))
    assert {f"t{number}" for number in range(1, 14)} <= set(cases)
    for name, title in library.titles().items():
        scenario = library.load(name)
        assert scenario.title == title
        lines = library.text(name).splitlines()
        for role in scenario.roles:
            for step in walk(role.program):
                assert step.word in lines[step.line - 1]


GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "simulate.md").read_text(encoding="utf-8")


def test_the_guides_example_is_a_scenario():
    """The example that a reader copies from docs/guides/simulate.md can be simulated."""
    lines = GUIDE[GUIDE.index("    title = ") :].splitlines()
    end = next(place for place, line in enumerate(lines) if line and not line.startswith("    "))

    found = parse(textwrap.dedent("\n".join(lines[:end])), name="app")

    assert [role.name for role in found.roles] == ["server", "worker"]
    assert all(step.line for role in found.roles for step in walk(role.program))


def test_the_guide_has_every_step_and_parameter():
    """Each key of a step and each parameter is in a table of the guide."""
    for word in WORDS:
        assert re.search(rf"`{word}[ `]", GUIDE) or f"`{word} =" in GUIDE, word
    for name in PARAMETERS:
        plain = name.removesuffix("_s").replace("_per", "").replace("_", "-").replace("NAME", "")
        assert f"`{plain}" in GUIDE, name


@pytest.mark.parametrize(
    ("roles", "duration_s"),
    [
        ("[role.a]\nrepeats = false\nprogram = [{hold_ms = 1}]", 100),
        ("[role.a]\nprogram = [{loop = 3, do = [{hold_ms = 1}]}, {exit = true}]", 100),
        ("[role.a]\nprogram = [{hold_ms = 1}]", 2),
        ("[role.a]\nrepeats = false\nprogram = [{hold_ms = 1}, {compute = true}]", 2),
        ("[role.a]\nrepeats = false\nprogram = [{hold_ms = 1}]\n[role.b]\nprogram = [{sleep_ms = 1}]", 2),
        ("duration_s = 3\n[role.a]\nrepeats = false\nprogram = [{hold_ms = 1}]", 3),
    ],
)
def test_a_program_that_ends_has_time_to_do_so(roles, duration_s):
    """Without a duration in its file, a program whose threads all end has 100 s, and any other one 2 s."""
    scenario = parse(roles, name="a")

    assert (scenario.duration_ns, scenario.warm_ns) == (duration_s * 10**9, 200_000_000)
