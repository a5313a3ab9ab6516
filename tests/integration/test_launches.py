"""Real launches on real interpreters: what they give, and every way to fail."""

import os
from pathlib import Path

import pytest
from lone_launches import alone, changed
from real_programs import LIMIT_S
from synthetic import make_cell
from waiting import wait_for

from headway.host.interpreters import discover, select
from headway.host.keeper import Keeper
from headway.host.machine import this_machine
from headway.lab.beside.surroundings import prepare
from headway.lab.launching.launch import run_launch
from headway.library import library_path

HERE = str(Path(__file__).parent)
FOUND = select(discover()[0], ["all"])
BY_NAME = {interpreter.name: interpreter for interpreter in reversed(FOUND)}

pytestmark = pytest.mark.slow


def faulty(name, **changes):
    return make_cell("x", name, "i", workload=f"faulty_workloads:{name}", paths=(HERE,), **changes)


def launch(cell, interpreter=None, limit_s=LIMIT_S, **options):
    executable = (interpreter or FOUND[-1]).executable
    (found,) = run_launch([cell], executable, this_machine(), limit_s=limit_s, **options)
    return found


def test_cells_that_take_turns_share_a_process(tmp_path):
    """Cells take turns forth and back, one sample each; each has its own launch, and all name the same process."""
    log = str(tmp_path / "log")
    cells = [
        make_cell(
            "x", name, "i", workload="turns_workload:Noted", paths=(HERE,), params={"name": name, "log": log}, samples=3
        )
        for name in "abc"
    ]

    done = run_launch(cells, FOUND[-1].executable, this_machine(), limit_s=LIMIT_S)

    assert [one.status for one in done] == ["ok"] * 3
    samples = [line for line in Path(log).read_text(encoding="utf-8").split() if line.endswith("timed")]
    assert [line[0] for line in samples] == list("abccbaabc")
    assert [one.samples["work_s"] for one in done] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert len({one.facts["shared"] for one in done}) == 1
    assert {one.facts["turns"] for one in done} == {3}
    assert all(one.facts["timed_s"] >= 0 and one.samples["interpreter_start_s"] for one in done)
    assert sum(one.wall_s for one in done) < LIMIT_S


def test_switch_intervals_take_turns_too():
    """Each cell's samples run under its own switch interval."""
    cells = [
        make_cell(
            "x", str(interval_s), "i", workload="turns_workload:Interval", paths=(HERE,), params=params, samples=2
        )
        for interval_s in (0.001, 0.005, 0.0001)
        for params in [{"switch_interval_s": interval_s}]
    ]

    done = run_launch(cells, BY_NAME["3.13"].executable, this_machine(), limit_s=LIMIT_S)

    assert [one.samples["interval_s"] for one in done] == [[pytest.approx(one)] * 2 for one in (0.001, 0.005, 0.0001)]


def test_what_breaks_one_turn_fails_all():
    """A failure in one turn fails all cells of the process, because none of them is a measurement then."""
    cells = [faulty("Good", samples=1), faulty("Raises", samples=1)]

    done = run_launch(cells, FOUND[-1].executable, this_machine(), limit_s=LIMIT_S)

    assert [one.status for one in done] == ["failed"] * 2
    assert len({one.reason for one in done}) == 1


@pytest.mark.parametrize("name", ["3.13t", "3.14", "3.15"])
def test_the_set_up_provides_the_newest_interpreters(name):
    """`make test` provisions a free-threaded 3.13, 3.14 and 3.15, without which the tests would prove too little."""
    assert name in BY_NAME, f"{name} is missing: run `make interpreters` and read what it says"


@pytest.mark.times
def test_a_launch_tells_its_course():
    """Each sample is a phase; one counting thread keeps a core busy in it, as far as the core's other threads let it."""
    machine = this_machine()
    cell = make_cell("x", "count", "i", workload="countdown", params={"n": 3_000_000, "threads": 1}, samples=3)
    done = launch(cell)

    assert done.status == "ok", done.reason
    course = done.facts["course"]
    assert [one["phase"] for one in course] == ["set-up", "warm-up", "timed", "timed", "timed"]
    ends = [0, *(one["until_s"] for one in course)]
    assert ends == sorted(ends)
    assert ends[-1] - ends[2] == pytest.approx(done.facts["timed_s"], abs=0.05)
    lasted = zip(course, ends, ends[1:], strict=False)
    assert all(0 <= one["busy_s"] <= len(machine.cores) * (end - begin + 0.02) for one, begin, end in lasted)
    assert sum(one["busy_s"] for one in course) > 0


def test_a_free_threaded_interpreter_loses_updates_and_appends_do_not():
    """Without a GIL, `+= 1` loses increments and `list.append` none."""
    lost = {}
    for variant in ("plain", "append", "lock", "count"):
        # Few increments may all be over before another thread has a core.
        params = {"threads": 4, "k": 500_000 if variant == "plain" else 50_000, "variant": variant}
        cell = make_cell("race", variant, "i", workload="race", model="threads", params=params)
        lost[variant] = launch(cell, BY_NAME["3.13t"]).samples["lost"]

    assert sum(lost["plain"]) > 0
    assert sum(lost["append"] + lost["lock"] + lost["count"]) == 0


@pytest.mark.parametrize("name", [name for name in ("3.12", "3.13", "3.13t", "3.14", "3.15") if name in BY_NAME])
def test_subinterpreters_have_their_own_modules_and_large_results_come_back(name):
    """Tasks run in other interpreters, errors come back as errors, and a result may exceed a pipe's buffer."""
    cell = make_cell("x", "sub", "i", workload="subinterpreter_workload:Check", model="interpreters", paths=(HERE,))
    done = launch(cell, BY_NAME[name])

    assert (done.status, done.stderr) == ("ok", "")
    assert done.samples["interpreters"] == [2.0] * 3
    assert done.samples["result_bytes"] == [300_000.0] * 3
    assert done.samples["error_came_back"] == [1.0] * 3


def test_placement_pins_the_launch():
    """A launch runs on one core with `same`, on the two chosen ones with `split`, and on all with `free`."""
    machine = this_machine()

    cores = {place: launch(faulty("Says", placement=place)).samples["cores"][0] for place in ("free", "same", "split")}

    assert cores == {"free": len(machine.cores), "same": 1, "split": len(machine.split) or 1}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "exit code 1: ZeroDivisionError: on purpose"),
        ("Crashes", "killed by SIGSEGV"),
        ("Killed", "killed by SIGKILL, perhaps by the kernel because memory ran out"),
        ("Leaves", "exit code 0: nothing on stderr"),
        ("Hungry", "out of memory: MemoryError"),
        ("Divides", "the workload's sample() gave nan for work_s, expected a finite number"),
    ],
)
def test_a_launch_that_goes_wrong_is_a_failed_launch(name, reason):
    """A launch comes back as failed, with one line that says how, whatever happens inside it."""
    done = launch(faulty(name), memory_limit_bytes=2**32)

    assert (done.status, done.reason) == ("failed", reason)


def test_a_traceback_is_kept():
    """The result of a failed launch has its stderr."""
    assert "on purpose" in launch(faulty("Raises")).stderr


def test_a_launch_that_hangs_is_killed_and_says_where():
    """A launch past its limit is killed, and its result has the stacks from shortly before."""
    done = launch(faulty("Hangs"), limit_s=10)

    assert (done.status, done.reason) == ("failed", "killed after its limit of 10 s")
    assert "in sample" in done.stderr
    assert done.wall_s < LIMIT_S


def test_a_process_that_cannot_be_started_is_a_failed_launch():
    """A missing executable and an impossible memory limit are failed launches, not crashes of the runner."""
    (gone,) = run_launch([faulty("Good")], "/nowhere/python3", this_machine(), limit_s=5)
    small = launch(faulty("Good"), memory_limit_bytes=1 << 20)

    assert (gone.status, gone.reason.startswith("the process could not be started")) == ("failed", True)
    assert small.status == "failed"


def test_a_pool_of_interpreters_that_cannot_start_fails_at_once():
    """A launch whose sub-interpreter cannot be made says so, and does not hang until its limit."""
    cell = make_cell("x", "sub", "i", workload="faulty_workloads:NoInterpreters", model="interpreters", paths=(HERE,))
    done = launch(cell, BY_NAME["3.13t"], limit_s=LIMIT_S)

    assert (done.status, "on purpose" in done.reason) == ("failed", True), done.stderr


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"


def test_nothing_of_a_launch_stays_behind():
    """Output on stdout does no harm, and a child that the workload left behind is gone with its launch."""
    done = launch(faulty("Talks"))

    assert done.status == "ok"
    wait_for(lambda: not alive(int(done.stderr.split()[1])))


def test_python_variables_of_the_user_do_not_reach_the_launch(monkeypatch):
    """PYTHONPATH and the like do not reach the launch, because they would change what is measured."""
    monkeypatch.setenv("PYTHONPATH", "/nonsense")
    monkeypatch.setenv("PYTHONSTARTUP", "/nonsense")
    monkeypatch.setenv("PYTHONHOME", "/nonsense")

    assert launch(faulty("Good")).status == "ok"


def test_descriptors_do_not_leak():
    """A failed and a good launch leave the runner's descriptors as they were."""
    before = os.listdir("/proc/self/fd")
    launch(faulty("Raises"))
    launch(faulty("Good"))

    assert len(os.listdir("/proc/self/fd")) == len(before)


def served(cell, interpreter, **options):
    """Run one cell with the servers and files that it needs."""
    machine = this_machine()
    surroundings = prepare([(cell.variant, interpreter)])
    with Keeper() as keeper, surroundings.opened(machine, 1) as neighbours:
        return alone(cell, interpreter, machine, keeper, neighbours, **options)


def convoy(interpreter, samples=2, **params):
    cell = make_cell(
        "convoy",
        "x",
        interpreter.id,
        placement="split",
        workload="convoy",
        model="threads",
        params={"duration_s": 0.2, "min_requests": 5, **params},
        samples=samples,
    )
    return served(cell, interpreter)


@pytest.mark.times
@pytest.mark.parametrize("name", ["3.8", "3.13", "3.15"])
def test_beside_a_cpu_bound_thread_a_request_waits_for_a_switch_interval(name):
    """With a GIL, one connection gets about one request per interval, and far more without the thread.

    While the machine keeps the CPU-bound thread from its core, no thread waits for the GIL. So one sample in five is
    enough: the one in which the server did least.
    """
    alone_ = convoy(BY_NAME[name], cpu=0)
    beside = convoy(BY_NAME[name], samples=5, cpu=1, switch_interval_s=0.02)

    fewest_per_s = min(beside.samples["requests_per_s"])
    waiting = beside.samples["requests_per_s"].index(fewest_per_s)
    assert beside.samples["latency_p50_s"][waiting] > 0.015
    assert beside.samples["of_bound"][waiting] < 1.5
    assert min(beside.samples["work_per_s"]) > 0
    assert min(alone_.samples["requests_per_s"]) > 10 * fewest_per_s
    assert "of_bound" not in alone_.samples


@pytest.mark.times
def test_without_a_gil_nobody_waits_for_an_interval():
    """The median request beside a CPU-bound thread is far below the interval on a free-threaded interpreter."""
    beside = convoy(BY_NAME["3.13t"], cpu=1, switch_interval_s=0.02)

    assert beside.samples["latency_p50_s"][0] < 0.01


@pytest.mark.parametrize("params", [{}, {"connections": 10}, {"transport": "udp"}, {"rate_per_s": 200}])
def test_a_launch_records_its_requests_and_the_figures_of_their_latencies(params):
    """The launch's details have the number of its requests, and its latencies are in their order."""
    done = convoy(BY_NAME["3.14"], cpu=0, **params)

    assert done.status == "ok", done.stderr
    assert done.facts["details"]["requests"] >= 2 * 5  # the least number of each sample, where the server has no core
    assert done.samples["latency_p50_s"][0] <= done.samples["latency_p99_s"][0] <= done.samples["latency_max_s"][0]
    assert 0 < done.samples["latency_mean_s"][0] < done.samples["latency_max_s"][0]
    assert 0 < done.samples["latency_sd_s"][0] < done.samples["latency_max_s"][0]
    assert sum(done.samples["lost_requests"]) == 0


def test_an_open_loop_keeps_to_its_rate_and_counts_what_it_held_up():
    """The latency shows each delay of the offered requests, whether a thread beside or the machine holds them up.

    A request is due every 5 ms. So no more and no fewer are answered in time than the longest latency tells, and beside
    a thread that lets one request through per 50 ms, the last one waits for nearly all that time.
    """
    kept = convoy(BY_NAME["3.13"], cpu=0, rate_per_s=200, arrivals="uniform", duration_s=0.5)
    for rate, longest_s in zip(kept.samples["requests_per_s"], kept.samples["latency_max_s"], strict=True):
        assert abs(rate - 200) <= 200 * longest_s / 0.5 + 1 / 0.5

    params = {"rate_per_s": 200, "arrivals": "uniform", "duration_s": 0.01, "min_requests": 10}
    done = convoy(BY_NAME["3.13"], samples=1, cpu=1, switch_interval_s=0.05, **params)
    # Ten requests are due in 45 ms, and an eleventh may be. A closed loop would report about 50 ms for each of them.
    assert done.samples["latency_max_s"][0] >= 10 / done.samples["requests_per_s"][0] - 0.045


@pytest.mark.times  # beside other tests, a thread may have no core for all of the 0.3 s
@pytest.mark.parametrize("unit", ["pidigits", "regex", "bz2"])
def test_work_with_nothing_beside_is_counted(unit):
    """Two threads of each of ccbench's tasks both get work done."""
    params = {"cpu": 2, "unit": unit, "duration_s": 0.3}
    cell = make_cell("x", unit, "i", workload="throughput", model="threads", params=params, samples=2)
    done = launch(cell, BY_NAME["3.13"])

    assert done.status == "ok", done.stderr
    assert min(done.samples["work_per_s"]) > 0
    assert min(done.samples["evenness"]) > 0.5


@pytest.mark.times
@pytest.mark.parametrize("unit", ["pidigits", "regex"])
def test_a_ping_waits_for_a_switch_interval_beside_a_task_that_keeps_the_gil(unit):
    """The median datagram of an even open loop takes a switch interval or more, in Python code and in C."""
    pings = {"transport": "udp", "rate_per_s": 10, "arrivals": "uniform", "duration_s": 0.8}
    done = convoy(BY_NAME["3.13"], cpu=1, unit=unit, switch_interval_s=0.02, **pings)

    assert done.status == "ok", done.stderr
    assert min(done.samples["latency_p50_s"]) > 0.015
    assert sum(done.samples["lost_requests"]) == 0


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [("latency_us=20000 os_slice_us=100", "ok", ""), ("nothing=1", "failed", "nothing")],
)
def test_a_policy_has_its_options(options, status, reason):
    """A cell's options reach the policy, which checks them."""
    params = {"n": 1000, "tasks": 1, "policy": "fair", "policy_options": options}
    done = launch(make_cell("x", "v", "i", params=params), BY_NAME["3.13"], library=library_path())

    assert done.status == status, done.stderr
    assert reason in done.reason + done.stderr


@pytest.mark.times  # beside other tests, a request of 0.05 s may have no core for longer than that
def test_drawn_delays_are_the_same_for_every_client():
    """The server's delays follow from the seed and the request alone, so two clients see the same times."""
    params = {"requests": 3, "period_s": 0.05, "jitter": 0.9}
    cells = [
        make_cell("http-sleep", model, "i", workload="http", model=model, params=params, samples=1, server="http")
        for model in ("serial", "threads")
    ]
    serial, threads = [served(cell, BY_NAME["3.13"]).samples["work_s"][0] for cell in cells]

    # The longest of three lies between a third of their sum and all of it; new random delays would be anywhere.
    assert 0.3 * serial < threads < serial != pytest.approx(0.15, rel=0.02)


@pytest.mark.parametrize("model", ["threads", "processes-spawn"])
def test_every_worker_has_its_client_before_the_first_sample(model):
    """Each worker has imported urllib when the workload is open, so no sample pays for that, and no proxy is used."""
    cell = make_cell(
        "http-sleep",
        "x",
        "i",
        workload="warm_workload:Warm",
        model=model,
        params={"requests": 3, "period_s": 0.01},
        server="http",
        paths=(HERE,),
    )
    done = served(cell, BY_NAME["3.14"])

    assert done.status == "ok", done.stderr


def test_hiredis_is_used_only_where_it_is_asked_for():
    """The plain variant uses Python's parser even if hiredis is installed beside redis-py."""
    plain = make_cell("redis-set", "plain", BY_NAME["3.13"].id, workload="redis-set", server="redis")
    params = {"commands": 40, "tasks": 2}
    with_it = changed(plain, params={**params, "hiredis": True}, needs=("redis", "hiredis"))
    without = changed(plain, params=params, needs=("redis", "hiredis"))

    assert [served(cell, BY_NAME["3.13"]).status for cell in (with_it, without)] == ["ok", "ok"]


def test_a_workload_finds_its_bytes_in_every_worker():
    """Data made beforehand is there in each process and sub-interpreter, and the files are read back whole."""
    for model in (
        "serial",
        "threads",
        "processes-spawn",
        "processes-forkserver",
        "asyncio",
        "asyncio-processes",
        "interpreters",
    ):
        params = {"files": 6, "size_bytes": 5_000, "workers": 3, "volumes": ["disk", "tmpfs"]}
        cell = make_cell(
            "file-io", model, "i", workload="file-io", model=model, params=params, space={"disk": 1, "tmpfs": 1}
        )
        done = served(cell, BY_NAME["3.14"])

        assert done.status == "ok", done.stderr
