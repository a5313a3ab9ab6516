"""Real simulations, by the command line and by the library."""

import json
import subprocess

import pytest

from headway.cli.main import main
from headway.errors import ScenarioError
from headway.library import headers_path
from headway.sim import library, machine
from headway.sim.parameters import change
from headway.sim.parse import parse
from headway.sim.result import Stuck
from headway.sim.run import Job, run, run_all
from headway.traces.invariants import violations
from headway.traces.model import Kind
from headway.traces.reader import read

COST = machine.load(machine.PRESET)
PRESET = ("--calibration", machine.PRESET)
SHORT = "0.2"
SHARE = 1 + 1e-9
"""A sum of shares of the time, with the rounding of floating-point numbers."""


def short(name, **settings):
    """Return a built-in scenario of a fifth of a second."""
    scenario = change(library.load(name), "duration_s", SHORT)
    for key, value in settings.items():
        scenario = change(scenario, key, value)
    return scenario


@pytest.mark.parametrize("policy", ["none", "fair", "priority", "bfs", "stock"])
@pytest.mark.parametrize("name", library.names())
def test_every_built_in_scenario_runs(name, policy):
    """Every built-in scenario runs under every policy, and its times add up."""
    scenario = short(name, policy=policy)

    found = run(Job(scenario, COST, 1)).outcome

    assert found.steps > 0
    for gil in found.gils:
        assert 0 < gil.held_share <= SHARE
    roles = [part for part in found.parts if not part.client]
    assert sum(part.held_share for part in roles) == pytest.approx(sum(gil.held_share for gil in found.gils), rel=1e-6)
    for part in roles:
        assert 0 <= part.waited_share <= SHARE
        assert part.held_share + part.waited_share * part.threads <= part.threads * SHARE
    assert sum(part.cpu_share for part in found.parts) <= scenario.cores * SHARE


def test_the_same_seed_gives_the_same_bytes(capsys, tmp_path):
    """The JSON and the trace of two runs are equal byte for byte, and another seed gives others."""

    def made(path, seed):
        how = ["--duration", SHORT, "--seed", seed, "--seeds", "2", "--trace", str(path)]
        assert main(["simulate", "convoy", *PRESET, *how, "--json"]) == 0
        return capsys.readouterr().out, path.read_bytes()

    first = made(tmp_path / "a.hwt", "1")
    second = made(tmp_path / "b.hwt", "1")
    other = made(tmp_path / "c.hwt", "9")

    assert first == second
    assert first[0] != other[0]
    assert first[1] != other[1]


def test_processes_beside_each_other_change_nothing():
    """Runs that are divided among processes give the same as one after the other."""
    jobs = [Job(short("t1", threads=threads), COST, seed) for threads in "12" for seed in (1, 2)]

    assert [one.outcome for one in run_all(jobs, workers=1)] == [one.outcome for one in run_all(jobs, workers=2)]


@pytest.mark.parametrize("policy", ["none", "fair"])
@pytest.mark.parametrize("name", ["convoy", "t2", "t8", "t10"])
def test_the_trace_is_sound_and_agrees_with_the_figures(name, policy, capsys, tmp_path):
    """The trace keeps the invariants, `headway report` opens it, and its holds are those of the result."""
    path = tmp_path / "app.hwt"
    scenario = short(name, policy=policy)

    ran = run(Job(scenario, COST, 3, max_events=10**7))

    assert ran.trace is not None
    assert violations(ran.trace) == []
    assert ran.trace.loss.whole
    warm_ns = ran.trace.start_ns + scenario.warm_ns
    held_ns, since_ns = 0, None
    for time_ns, _, _, kind, _, _ in ran.trace.events.tolist():
        if kind == Kind.ACQUIRE:
            since_ns = time_ns
        elif kind == Kind.RELEASE and since_ns is not None:
            held_ns += max(0, time_ns - max(since_ns, warm_ns))
            since_ns = None
    if since_ns is not None:
        held_ns += ran.trace.end_ns - max(since_ns, warm_ns)
    assert held_ns == pytest.approx(ran.outcome.gils[0].held_share * scenario.duration_ns, rel=1e-3)

    words = ["simulate", name, *PRESET, "--policy", policy, "--duration", SHORT, "--seeds", "1", "--trace", str(path)]
    assert main(words) == 0
    assert violations(read(path)) == []
    capsys.readouterr()
    assert main(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_the_convoy_is_one():
    """A request beside a thread that computes waits for a switch interval, and `fair` or processes prevent that."""

    def answered(**settings):
        scenario = change(library.load("convoy"), "duration_s", "1")
        for key, value in settings.items():
            scenario = change(scenario, key, value)
        client = run(Job(scenario, COST, 1)).outcome.parts[-1]
        assert client.client
        return client.done_per_s

    convoy = answered()
    assert 100 < convoy < 250
    assert answered(threads="0") > 20 * convoy
    assert answered(policy="fair") > 20 * convoy
    assert answered(processes="on") > 20 * convoy
    assert answered(switch_interval_s="0.0005") > 3 * convoy


def test_threads_that_occupy_all_cores_leave_a_tenth():
    """Threads of tiny calls that keep two cores busy leave a CPU-bound thread a tenth of the GIL's time under `fair`.

    The CPU-bound thread is called, and mostly has no core at once; while it comes, the others take the GIL.
    """
    text = """
cores = 2
policy = "fair"
duration_s = 0.4
[role.pipes]
threads = 4
program = [{hold_ns = 600}, {run_ns = 800}, {hold_ns = 400}, {run_ns = 800}, {done = true}]
[role.cpu]
program = [{compute = true}]
"""
    pipes, cpu = run(Job(parse(text, name="pipes"), COST, 1)).outcome.parts

    assert 0.08 < cpu.held_share < 0.13
    assert pipes.done_per_s > 100_000


@pytest.mark.parametrize("call_us", [1, 5, 20])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_thread_whose_calls_return_at_once_starves_no_other(call_us, threads):
    """A thread that computes 1 ms between calls of microseconds has the GIL back before a waiter that it wakes is there.

    CPython never makes a request then, so that a CPU-bound thread hardly gets the GIL. Under `fair`, all share it.
    """
    text = f"""
cores = 2
duration_s = 3
policy = "fair"
[role.cpu]
threads = {threads}
program = [{{compute = true}}]
[role.burst]
program = [{{hold_us = 1000}}, {{run_us = {call_us}}}, {{done = true}}]
"""
    shares = []
    for seed in range(1, 6):
        ran = run(Job(parse(text, name="barging"), COST, seed))
        shares += [part.held_share for part in ran.outcome.parts if part.name == "cpu"]

    assert min(shares) > 0.4


def test_an_answer_from_outside_is_waited_for():
    """The answer comes a fixed time after the last send, and work done meanwhile does not delay it."""
    text = """
[role.asks]
program = [{send = true}, {hold_us = 300}, {answer_ms = 1}, {done = true}]
"""
    found = run(Job(parse(text, name="asks"), COST, 1)).outcome.parts[0]

    assert found.p50_ms == pytest.approx(1.1, abs=0.1)


def test_times_are_drawn_from_their_own_distributions():
    """Each step takes what its own distribution says, and a median is reported as it was given."""
    scenario = parse(
        """
duration_s = 2
[role.short]
process = "none"
program = [{run_us = {lognormal = {median = 20, sigma = 0.5}}}, {done = true}]
[role.long]
process = "none"
program = [{run_us = {uniform = [300, 500]}}, {done = true}]
[role.slow]
process = "none"
program = [{block_ms = {quantiles = [1, 2, 6]}}, {done = true}]
""",
        name="drawn",
    )
    scenario = change(scenario, "cores", "4")

    short, long, slow = run(Job(scenario, COST, 1)).outcome.parts

    assert short.p50_ms == pytest.approx(0.02, rel=0.05)
    assert long.p50_ms == pytest.approx(0.4, rel=0.05)
    assert 0.3 < long.max_ms < 0.6
    assert slow.p50_ms == pytest.approx(2.06, rel=0.1)


def test_a_policy_of_a_users_own(tmp_path):
    """A library that is named by its path schedules the simulated GIL, too."""
    source = tmp_path / "mine.c"
    source.write_text(
        """
#include "headway/policy.h"
static void ready(struct hw_policy_gil *gil, struct hw_policy_thread *thread) { thread->key = gil->now_ns; }
static int64_t patience(struct hw_policy_gil *gil, const struct hw_policy_thread *waiter,
                        const struct hw_policy_thread *holder) {
    (void)holder;
    return waiter->ready_ns + gil->options[0] * 1000 - gil->now_ns;
}
static const struct hw_policy_option options[] = {{"wait_us", 0, 1000000, 1000, "patience"}, {0}};
const struct hw_policy headway_policy = {
    .abi = HW_POLICY_ABI, .name = "mine", .about = "", .good_for = "", .bad_at = "", .options = options,
    .ready = ready, .patience = patience};
"""
    )
    library = tmp_path / "mine.so"
    command = ["cc", "-shared", "-fPIC", "-I", str(headers_path()), str(source), "-o", str(library)]
    subprocess.run(command, check=True)

    def median_ms(wait_us):
        scenario = change(short("convoy", policy=str(library)), "option.wait_us", str(wait_us))
        found = run(Job(scenario, COST, 1)).outcome.parts[-1].p50_ms
        assert found is not None
        return found

    assert median_ms(100) < median_ms(1000) < median_ms(3000)


def test_a_client_whose_answer_does_not_come_is_an_error():
    """A server that answers no request has no result: the scenario is wrong, or not all of the program."""
    scenario = parse(
        """
warm_ms = 0
duration_s = 1
[role.server]
program = [{receive = "requests"}, {hold_us = 10}]
[client.load]
port = "requests"
""",
        name="mute",
    )

    with pytest.raises(ScenarioError, match="every thread that has not ended waits for another thread"):
        run(Job(scenario, COST, 1))


BATCH = """
duration_s = 2
warm_s = 0
cores = 4
[role.w]
threads = 4
repeats = false
program = [{loop = 2, do = [{hold_ms = 10}, {done = true}]}, {exit = true}]
"""


def test_a_program_that_ends_is_simulated_to_its_end(capsys, tmp_path):
    """The figures of a batch are those of the time until its last thread ends, which the table and the JSON name."""
    path = tmp_path / "batch.toml"
    path.write_text(BATCH)
    trace = tmp_path / "batch.hwt"
    how = ["simulate", str(path), *PRESET, "--seeds", "1", "--jobs", "1"]

    assert main([*how, "--json", "--trace", str(trace)]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)["points"][0]["outcomes"]
    assert outcome["ended"]
    assert outcome["elapsed_s"] == pytest.approx(0.08, rel=0.05)
    assert outcome["parts"][0]["done"] == 8
    assert outcome["parts"][0]["done_per_s"] == pytest.approx(100, rel=0.05)
    read_back = read(trace)
    assert not violations(read_back)
    assert read_back.end_ns - read_back.start_ns == pytest.approx(outcome["elapsed_s"] * 1e9, rel=1e-6)
    assert main(how) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "s of virtual time after the warm-up, until all threads ended, one seed" in out
    assert "use a longer --duration" not in out


def test_a_program_that_ends_needs_no_duration(capsys, tmp_path):
    """A batch of 4 s is simulated to its end if nothing names a duration; with a shorter one, a remark says so."""
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.replace("duration_s = 2", "").replace("loop = 2", "loop = 100"))
    how = ["simulate", str(path), *PRESET, "--seeds", "2", "--jobs", "1"]

    for more, ended in ((), True), (("--duration", "2"), False):
        assert main([*how, *more, "--json"]) == 0
        outcomes = json.loads(capsys.readouterr().out)["points"][0]["outcomes"]
        assert [(one["ended"], one["parts"][0]["done"] == 400) for one in outcomes] == [(ended, ended)] * 2
        assert main([*how, *more, "--html", str(tmp_path / "page.html"), "--force"]) == 0
        remark = "not all threads had ended after 2 s; use a longer --duration"
        assert (f"remark: {remark}" in " ".join(capsys.readouterr().out.split())) == (not ended)
        assert (remark in (tmp_path / "page.html").read_text()) == (not ended)
    assert main([*how, "--sweep", "duration=1,2,10"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "remark: not all threads had ended after 1 to 2 s; use a longer --duration" in said


def test_a_program_that_ends_within_the_warm_up_is_an_error(tmp_path, capsys):
    """Nothing of such a program would be counted."""
    path = tmp_path / "batch.toml"
    path.write_text(BATCH.replace("warm_s = 0", "warm_s = 0.2"))

    assert main(["simulate", str(path), *PRESET]) == 2

    err = capsys.readouterr().err
    assert "every thread ended within the warm-up, after 0.08" in err
    assert "write `warm_s = 0` in the scenario" in err


DEADLOCK = """
locks = ["a", "b"]
[role.one]
program = [{lock = "a"}, {sleep_ms = 1}, {lock = "b"}, {hold_us = 10}, {unlock = "b"}, {unlock = "a"}]
[role.two]
program = [{lock = "b"}, {sleep_ms = 1}, {lock = "a"}, {hold_us = 10}, {unlock = "a"}, {unlock = "b"}]
"""
TICK = """
[role.tick]
program = [{sleep_ms = 10}, {hold_us = 10}, {done = true}]
"""


def outcomes_in_deadlock(capsys, how):
    """Return the outcomes of a simulation, in each of which both roles wait for the other's lock."""
    assert main([*how, "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)["points"][0]["outcomes"]
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome["stuck"] == [
            {"role": "one", "threads": 1, "waits_for": "lock b"},
            {"role": "two", "threads": 1, "waits_for": "lock a"},
        ]
    return outcomes


def test_threads_in_a_deadlock_are_told(capsys, tmp_path):
    """A role whose threads have waited for the second half of the time has a remark, with what it waits for."""
    path = tmp_path / "deadlock.toml"
    path.write_text(DEADLOCK + TICK)
    how = ["simulate", str(path), *PRESET, "--seeds", "2", "--duration", SHORT]

    outcomes_in_deadlock(capsys, how)
    assert main([*how, "--html", str(tmp_path / "page.html")]) == 0
    remark = "one: 1 thread waits at the end, and since the first half of the time, for lock b"
    assert f"remark: {remark} remark: two:" in " ".join(capsys.readouterr().out.split())
    assert remark in (tmp_path / "page.html").read_text()
    assert main(["simulate", "t6", *PRESET, "--seeds", "1", "--duration", SHORT]) == 0
    assert "remark" not in capsys.readouterr().out


def test_no_finished_piece_of_work_is_0_and_no_blank(capsys, tmp_path):
    """A blank in the column `done` is that of a role that finishes no pieces of work by its program."""
    path = tmp_path / "none.toml"
    path.write_text("[role.one]\nprogram = [{sleep_s = 99}, {done = true}]\n[role.two]\nprogram = [{sleep_s = 99}]\n")
    assert main(["simulate", str(path), *PRESET, "--seeds", "1", "--duration", SHORT]) == 0
    rows = {
        line.split()[0]: line.split()[:4]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("one", "two"))
    }

    assert rows["one"][1:3] == ["1", "0/s"]
    assert rows["two"][1:4] == ["1", "0", "%"]


def test_a_program_that_stands_still_is_a_result(capsys, tmp_path):
    """If all threads wait for ever, the table has what was done until then, and remarks say since when, who and for what."""
    path = tmp_path / "deadlock.toml"
    path.write_text(
        "warm_s = 0"
        + DEADLOCK.replace(
            "{sleep_ms = 1}, {lock", "{loop = 5, do = [{sleep_ms = 2}, {hold_us = 1}, {done = true}]}, {lock"
        )
    )
    how = ["simulate", str(path), *PRESET, "--seeds", "2", "--duration", SHORT]

    for outcome in outcomes_in_deadlock(capsys, how):
        assert 0.01 < outcome["stood_s"] < 0.02
        assert not outcome["ended"]
        assert [part["done_per_s"] for part in outcome["parts"]] == [5 / float(SHORT)] * 2
    assert main(how) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "remark: standstill: in 2 of 2 runs, all threads that are left wait for ever, from 0.01" in said
    assert "one: 1 thread waits at the end for lock b" in said


@pytest.mark.parametrize("warm_ms", [0, 50])
def test_consumers_that_outlive_their_producer_stand_still(warm_ms):
    """A program whose last items are done before its end, or even before the end of the warm-up, has a result, too."""
    scenario = parse(
        f"""
warm_ms = {warm_ms}
duration_ms = 100
[queue.jobs]
[role.producer]
repeats = false
program = [{{loop = 10, do = [{{sleep_ms = 1}}, {{put = "jobs"}}]}}]
[role.consumer]
threads = 2
program = [{{get = "jobs"}}, {{hold_us = 10}}, {{done = true}}]
""",
        name="batch",
    )

    outcome = run(Job(scenario, COST, 1)).outcome

    assert outcome.stuck == (Stuck("consumer", 2, "queue jobs"),)
    assert 0.01 < outcome.stood_s < 0.013
    consumer = next(part for part in outcome.parts if part.name == "consumer")
    assert consumer.done == (0 if warm_ms else 10)
    assert (consumer.cpu_share > 0) == (not warm_ms)


def test_threads_that_starve_are_told(capsys, tmp_path):
    """A role whose threads have waited for the GIL for the second half of the time has a remark."""
    path = tmp_path / "starved.toml"
    path.write_text("""
[role.call]
program = [{sleep_ms = 1}, {call_s = 100}]
[role.waits]
threads = 2
program = [{sleep_ms = 5}, {hold_us = 10}]
""")

    assert main(["simulate", str(path), *PRESET, "--seeds", "1", "--duration", SHORT]) == 0

    remark = (
        "remark: waits: 2 threads wait at the end, and since the first half of the time, for the GIL; what waits with"
    )
    assert remark in " ".join(capsys.readouterr().out.split())


def test_a_lock_that_is_not_locked_cannot_be_unlocked(capsys, tmp_path):
    """A role that unlocks another role's lock may do so only while that lock is locked."""
    path = tmp_path / "unlock.toml"
    path.write_text("""
locks = ["a"]
[role.one]
program = [{lock = "a"}, {sleep_ms = 5}, {unlock = "a"}, {sleep_ms = 5}]
[role.two]
program = [{sleep_ms = 7}, {unlock = "a"}]
""")

    assert main(["simulate", str(path), *PRESET]) == 2

    assert "a thread unlocks a lock that is not locked, for which Python raises RuntimeError" in capsys.readouterr().err
