"""`headway whatif` on files that `headway simulate --trace` has written, beside the simulation of the change."""

import json
import math

import pytest

from headway.cli.main import main
from headway.sim import library, parameters
from headway.sim.compile import compile_scenario
from headway.sim.machine import load
from headway.sim.parse import parse
from headway.sim.replay.change import Change
from headway.sim.replay.learn import learn
from headway.sim.replay.locks import lock_lines
from headway.sim.replay.waiting import limits
from headway.sim.run import Job, run
from headway.traces.calls import Call
from headway.traces.reader import read

COSTS = load("preset")
PRESET = ("--calibration", "preset")

SLOTS = """
cores = 2
duration_s = 1
[semaphore.slots]
initial = 1
[semaphore.ready]
[role.user]
threads = 3
program = [{sleep_ms = 1}, {take = "slots"}, {hold_us = 50}, {sleep_ms = 2}, {hold_us = 5}, {post = "slots"}]
[role.maker]
program = [{sleep_ms = 5}, {hold_us = 20}, {post = "ready"}]
[role.waiter]
program = [{take = "ready"}, {hold_us = 20}]
"""

PAIRS = """
cores = 2
duration_s = 10
[queue.a]
[queue.b]
[role.a-source]
program = [{hold_us = 30}, {put = "a"}, {hold_us = 10}, {sleep_ms = 10}]
[role.a-sink]
program = [{get = "a"}, {hold_us = 40}]
[role.b-source]
program = [{hold_us = 30}, {put = "b"}, {hold_us = 10}, {sleep_ms = 17}]
[role.b-sink]
program = [{get = "b"}, {hold_us = 40}]
"""

PIPELINE = """
cores = 2
duration_s = 2
[queue.full]
capacity = 4
[queue.empty]
[role.reader]
program = [{hold_us = 20}, {put = "full"}]
[role.worker]
program = [{get = "full"}, {hold_us = 20}, {sleep_ms = 3}, {put = "empty"}]
[role.writer]
program = [{get = "empty"}, {hold_us = 20}]
[role.other]
program = [{hold_us = 20}, {sleep_ms = 5}]
"""

SOURCES = """
cores = 2
duration_s = 10
[queue.items]
[role.one]
program = [{hold_us = 30}, {put = "items"}, {hold_us = 10}, {sleep_ms = {exponential = 5}}]
[role.two]
program = [{hold_us = 30}, {put = "items"}, {hold_us = 10}, {sleep_ms = {exponential = 7}}]
[role.sink]
program = [{get = "items"}, {hold_us = 40}]
"""


@pytest.fixture
def traced(tmp_path):
    """Return a function that simulates a scenario and returns the file of its trace."""

    def simulate(*words):
        path = tmp_path / "simulated.hwt"
        assert main(["simulate", *words, *PRESET, "--seeds", "1", "--trace", str(path), "--force"]) == 0
        return path

    return simulate


def whatif(path, capsys, *words):
    """Return the text and the roles of a prediction."""
    capsys.readouterr()
    assert main(["whatif", str(path), *PRESET, *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["whatif", str(path), *PRESET, *words, "--json"]) == 0
    return text, {one["role"]: one for one in json.loads(capsys.readouterr().out)["roles"]}


def truth_of(name, role, **settings):
    """Return the turns of a role per second with other settings of a scenario."""
    scenario = library.load(name)
    for key, value in settings.items():
        scenario = parameters.change(scenario, key, value)
    return learn(run(Job(scenario, COSTS, 2, max_events=300_000)).trace, COSTS).measured[role].turns_per_s


@pytest.mark.parametrize("name", ["convoy", "t4"])
def test_a_change_of_a_split_scenario_is_predicted(name, traced, capsys):
    """The server's rate under `fair` is that of the simulation under `fair`, and nothing is outside the model."""
    text, roles = whatif(traced(name), capsys, "--policy", "fair")

    assert "outside the model" not in text
    assert "keeps a clock" not in text
    found = roles["server"]["turns_per_s"]["value"]
    assert abs(math.log(found / truth_of(name, "server", policy="fair"))) < 0.2


@pytest.mark.parametrize(
    ("settings", "cores"),
    [({"placement": "split"}, 1), ({"placement": "same"}, 1), ({"placement": "free"}, 2)],
    ids=["split", "same", "free"],
)
def test_a_trace_has_the_number_of_cores_of_its_program(settings, cores):
    """It is the number of cores on which its threads may run; a client, and the machine's other cores, do not count."""
    scenario = library.load("convoy")
    for key, value in settings.items():
        scenario = parameters.change(scenario, key, value)

    assert run(Job(scenario, COSTS, 1, max_events=1_000)).trace.process.core_count == cores


def test_a_role_without_python_adds_no_core():
    """A role of the process `none` is another program, whose cores are not those of the traced one."""
    text = """
    cores = 4
    duration_ms = 100
    [role.here]
    cores = [0, 2]
    program = [{hold_us = 5}, {sleep_ms = 1}]
    [role.elsewhere]
    process = "none"
    cores = [1, 3]
    program = [{run_us = 5}]
    """
    assert run(Job(parse(text, name="apart"), COSTS, 1, max_events=1_000)).trace.process.core_count == 2


def test_waits_for_a_simulated_lock_are_outside_the_model(traced, capsys):
    """A line says that a role waits for a lock as often as in the trace, as it does of a recorded program."""
    text, _ = whatif(traced("t8-inversion"), capsys, "--policy", "fair")

    assert "outside the model: how often needy waits for the lock or semaphore at t8-inversion.toml:14 is as in" in text


def test_a_semaphore_that_a_role_gives_back_is_a_lock():
    """A semaphore that another role posts is a signal: it has an order, as a queue has."""
    model = learn(run(Job(parse(SLOTS, name="slots"), COSTS, 1, max_events=100_000)).trace, COSTS)
    functions = {
        model.trace.frames[model.trace.stack_frame[stack]].function for stack in lock_lines(model.trace, model.kinds)
    }

    assert functions == {"user: take slots, then post"}
    (said,) = limits(model, Change(policy="fair"))
    assert said.startswith("how often user * waits for the lock or semaphore at slots.toml:")


def test_a_file_tells_the_kind_of_each_call(traced, tmp_path):
    """The steps' names are in the file, so what a thread waits for is known as it is from a program's source."""
    path = tmp_path / "slots.toml"
    path.write_text(SLOTS)
    model = learn(read(traced(str(path))), COSTS)
    frames = {stack: model.trace.frames[model.trace.stack_frame[stack]] for stack in model.kinds if stack}
    kinds = {frame.function: model.kinds[stack] for stack, frame in frames.items()}

    steps = compile_scenario(parse(SLOTS, name="slots"), COSTS, 1).steps
    assert {function.split(": ")[1].split(" ")[0] for function in kinds} < {step.word for _, step in steps}
    assert kinds["user: sleep"] is Call.SLEEP
    assert kinds["waiter: take ready"] is Call.LOCK


def test_a_pair_goes_on_without_another_pair_that_it_never_waited_for(traced, tmp_path, capsys):
    """Now and then a source of one queue has the GIL just when the sink of another queue wakes up: it did not wake it."""
    path = tmp_path / "pairs.toml"
    path.write_text(PAIRS)
    text, roles = whatif(traced(str(path)), capsys, "--without", "a-source")

    assert "outside the model: a-sink waited for a-source in the trace: without it, they may have nothing to do" in text
    assert roles["a-sink"]["turns_per_s"]["value"] == 0
    assert roles["b-sink"]["turns_per_s"]["value"] == pytest.approx(roles["b-source"]["turns_per_s"]["value"], rel=0.01)
    assert roles["b-sink"]["turns_per_s"]["value"] > 55


@pytest.mark.parametrize(
    ("role", "may_stop"),
    [
        ("reader", "worker in the trace: without it, worker and writer"),
        ("writer", "worker in the trace: without it, worker and reader"),
    ],
)
def test_what_a_role_that_is_left_out_waited_for_may_stop(role, may_stop, traced, tmp_path, capsys):
    """Nobody puts anything into an empty queue, or takes anything from a full one, which stops the other threads of a pipeline."""
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    text, _ = whatif(traced(str(path)), capsys, "--without", role)

    assert f"outside the model: {role} waited for {may_stop} may stop at an empty or a full queue" in text


def test_a_queue_goes_on_with_the_sources_that_are_left(traced, tmp_path, capsys):
    """The sink then has the items of the other source; those of further threads it has not, as `whatif` says."""
    path = tmp_path / "sources.toml"
    path.write_text(SOURCES)
    trace = traced(str(path))
    _, left = whatif(trace, capsys, "--without", "two")
    text, more = whatif(trace, capsys, "--threads", "one:3")

    assert left["sink"]["turns_per_s"]["value"] == pytest.approx(left["one"]["turns_per_s"]["value"], rel=0.05)
    assert "sink waits for one, and goes on in the model as often as in the trace" in text
    assert more["sink"]["turns_per_s"]["value"] == pytest.approx(more["sink"]["measured"]["turns_per_s"], rel=0.05)
