"""Whole runs: killed, resumed, interrupted, failing in the middle."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from real_programs import LIMIT_S
from synthetic import make_cell, make_settings
from waiting import wait_for

from headway import lab
from headway.agent import AGENT_PATH
from headway.errors import HeadwayError, InterpreterError, StoreError, UsageError
from headway.host.interpreters import discover, select
from headway.host.machine import this_machine
from headway.lab.beside.surroundings import prepare
from headway.lab.judging.verdicts import ORDER
from headway.lab.kept.launched import Launch
from headway.lab.kept.store import Store
from headway.lab.launching import as_begun, processes, runner
from headway.lab.launching.launch import run_launch
from headway.lab.launching.processes import Processes
from headway.lab.launching.session import Session
from headway.lab.plan import Plan
from headway.lab.sequential import FIRST_LOOK

HERE = str(Path(__file__).parent)

# Whole labs, which install libraries that are not in the cache yet.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

LAB = [sys.executable, "-m", "headway", "lab"]
COMMAND = [*LAB, "sleep", "--launches", "6", "--seed", "1", "--interpreter"]
PLANNED = 4 * 6


@pytest.fixture
def store_path(tmp_path):
    return tmp_path / "results.sqlite"


@pytest.fixture
def at_once(monkeypatch):
    """Give each cell figures at once, as of a launch of a second, where the launches are not what is tested."""

    def launched(cells, *_, **__):
        return [Launch(status="ok", samples={"work_s": [0.1], "switch_s": [1e-5]}, wall_s=1.0) for _ in cells]

    monkeypatch.setattr(processes, "run_launch", launched)


@pytest.fixture(autouse=True)
def _others():
    """Note the processes that were there before the test: it has started none of them."""
    OTHERS.clear()
    OTHERS.update(os.listdir("/proc"))


OTHERS: set[str] = set()


def stored(path, what="c.key, l.block"):
    """Return (cell key, block) of every launch in the store, or other columns."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        try:
            return db.execute(f"SELECT {what} FROM launches l JOIN cells c ON c.id = l.cell ORDER BY l.id").fetchall()
        except sqlite3.OperationalError:
            return []  # The schema is being created.


@contextlib.contextmanager
def running_lab(store_path, at_least, on="3.13"):
    """Start a lab in its own process, and yield it once it has stored `at_least` launches."""
    process = subprocess.Popen(
        [*COMMAND, on],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:

        def has_begun():
            assert process.poll() is None, process.stderr.read()
            return store_path.exists() and len(stored(store_path)) >= at_least

        wait_for(has_begun, limit_s=LIMIT_S)
        yield process
    finally:
        process.kill()
        process.communicate()


def agents(name="environ"):
    """Return the pids of this test's live agents and of all that they started; with `cmdline`, of agents alone."""
    found = []
    ours = [b"PYTHONPATH=" + bytes(AGENT_PATH), b"HEADWAY_STORE=" + os.environb[b"HEADWAY_STORE"]]
    for entry in os.listdir("/proc"):
        if entry.isdigit() and entry not in OTHERS:
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{entry}/environ").read_bytes()
                agent = b"headway_agent.worker" in Path(f"/proc/{entry}/cmdline").read_bytes()
                if all(mark in environment for mark in ours) and (agent or name == "environ"):
                    found.append(int(entry))
    return found


def test_a_killed_run_is_completed_by_resume_and_no_launch_counts_twice(store_path):
    """A killed runner keeps every stored launch and leaves no agent behind, and `--resume` runs only the rest."""
    with running_lab(store_path, 5, on="3.13t") as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_for(lambda: agents() == [])
    before = stored(store_path)
    assert 5 <= len(before) < PLANNED

    resumed = subprocess.run(
        [sys.executable, "-m", "headway", "lab", "--resume", "last"], capture_output=True, text=True, check=True
    )

    after = stored(store_path)
    assert after[: len(before)] == before
    assert len(after) == PLANNED == len(set(after))
    assert f"{len(before)} of them already done" in resumed.stderr
    assert lab.load_run("last", store=store_path).header.complete


def test_a_killed_runner_leaves_no_pool_behind():
    """A runner that is killed during a process pool's work leaves no worker behind."""
    command = [*LAB, "cpu-bound", "--published", "--model", "processes-spawn", "--interpreter", "3.13t"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # The agent, its resource tracker and four workers.
        wait_for(lambda: len(agents()) >= 6, limit_s=LIMIT_S)
    finally:
        process.kill()
        process.wait()

    wait_for(lambda: agents() == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_cleanly_with_what_is_there(store_path, number):
    """An interrupted lab reports its results, says how to go on, leaves nothing behind and exits as in a shell."""
    with running_lab(store_path, 8) as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 128 + number
    assert "INCOMPLETE" in out
    assert "a gather takes as long as the longest sleep" in out
    assert "--resume" in err
    assert "Traceback" not in err
    assert agents() == []


def test_a_second_lab_is_refused(store_path):
    """A second lab is refused, because two labs would measure each other."""
    with running_lab(store_path, 1) as process, pytest.raises(HeadwayError, match=f"process {process.pid}"):
        lab.run(lab.Request(experiments=["sleep"], interpreters=["3.13t"], launches=1))


def test_a_worker_killed_in_mid_launch_is_one_failed_launch(store_path):
    """A killed agent fails its launch, and the run goes on, ends and says so.

    An agent that has given all its answers has nothing left to fail: then it is the next one's turn.
    """
    # Without a GIL, no cells take turns in one launch, which would be launched alone after a failure.
    with running_lab(store_path, 2, on="3.13t") as process:
        while ("failed",) not in stored(store_path, "l.status"):
            agent = wait_for(lambda: agents("cmdline"))[0]
            before = len(stored(store_path))  # with all launches before this agent's, so that the next is its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)
            wait_for(lambda count=before: len(stored(store_path)) > count)
        _, err = process.communicate(timeout=LIMIT_S)

    run = lab.load_run("last", store=store_path)
    assert run.header.complete
    assert [one.launch.reason for one in run.failures] == [
        "killed by SIGKILL, perhaps by the kernel because memory ran out"
    ]
    assert process.returncode == 1
    assert "1 launch failed" in err


def test_a_run_goes_on_past_failing_cells(store_path):
    """Crashing, hanging and raising cells fail by themselves, and the good cells between them are all measured."""
    names = ("Good", "Raises", "Crashes", "Hangs")
    cells = tuple(
        make_cell("sleep", name, "i", workload=f"faulty_workloads:{name}", paths=(HERE,), samples=1) for name in names
    )
    plan = Plan("quick", 2, None, 1, 1.5, None, cells, ())
    executable = select(discover()[0], ["3.13t"])[0].executable
    seen = []
    with Store(store_path, create=True) as store:
        run_id = store.new_run(make_settings(launches=2), cells)
        with Processes(plan, this_machine(), {"i": executable}, None, prepare([])) as launcher:
            Session(store, run_id, seen.append).carry_out(plan, launcher)
        launches = store.launches(run_id)

    status = {}
    for one in launches:
        status.setdefault(one.key.split("|")[1], []).append(one.launch.status)
    assert status == {"Good": ["ok"] * 2, "Raises": ["failed"] * 2, "Crashes": ["failed"] * 2, "Hangs": ["failed"] * 2}
    assert (seen[-1].done, seen[-1].failed, seen[-1].cell) == (8, 6, None)


def test_verdicts_are_on_the_screen_as_soon_as_they_are_known(store_path):
    """Each experiment's short report is printed before the next one's launches; then comes the last screen."""
    with subprocess.Popen(
        [*LAB, "sleep", "countdown", "--interpreter", "3.13", "--launches", "2", "--store", str(store_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "sleep: Do waits overlap?\n"
        assert not any(key.startswith("countdown") for key, _ in stored(store_path))
        lines = process.stdout.read().splitlines()

    second = lines.index("countdown: Does a countdown get faster when it is split over threads?")
    (claim,) = [line for line in lines[:second] if "threads take as long as the longest sleep, too: " in line]
    assert claim.strip().startswith(ORDER)
    assert any(line.startswith("Verdicts on this machine: ") for line in lines[second:])
    assert any(line.startswith("headway report ") for line in lines[second:])


def test_json_stands_alone_on_stdout():
    """Nothing that a lab prints while it runs is in its JSON."""
    done = subprocess.run(
        [*LAB, "sleep", "--interpreter", "3.13", "--launches", "2", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout)["complete"]


@pytest.mark.times
def test_a_budget_is_kept_and_spent_where_claims_are_open(store_path):
    """Every cell has its first look, and cells without an open claim have no more."""
    request = lab.Request(experiments=["sleep"], interpreters=["3.13"], budget_s=8, store=store_path)
    run = lab.run(request)

    assert run.header.complete
    assert run.settings.budget_s == 8
    counts = [len(result.launches) for result in run.results.values()]
    assert min(counts) >= FIRST_LOOK
    assert sum(one.launch.wall_s for result in run.results.values() for one in result.launches) < 8 + 3
    before = stored(store_path)
    again = lab.resume(run.id, store_path=store_path)
    assert stored(store_path) == before
    assert again.results.keys() == run.results.keys()


def test_what_is_provided_for_long_leaves_less_for_launches(store_path, at_once, monkeypatch):
    """The budget of the run is the one that is left after interpreters were built for more than half a minute."""
    clock, later_s = time.monotonic, [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: clock() + later_s[0])
    request = lab.Request(experiments=["sleep"], interpreters=["3.13"], store=store_path)
    run = lab.run(request, provide=lambda: later_s.__setitem__(0, 50.0))

    assert run.header.complete
    assert run.settings.budget_s == pytest.approx(60 - (50 - 30), abs=5)


def test_cells_that_take_turns_are_launched_alone_where_their_launch_fails(monkeypatch):
    """A cell that always fails takes none of the others with it, and the budget pays for each process."""
    cells = [
        replace(
            make_cell("sleep", name, "i", workload=f"faulty_workloads:{name}", paths=(HERE,), samples=1), turns=True
        )
        for name in ("Good", "Raises")
    ]
    plan = Plan("quick", 1, None, 1, 20.0, None, tuple(cells), ())
    executable = select(discover()[0], ["3.13"])[0].executable

    took_s = []

    def timed(cells, *arguments, **options):
        launches = run_launch(cells, *arguments, **options)
        took_s.extend(one.wall_s for one in launches)
        return launches

    monkeypatch.setattr(processes, "run_launch", timed)
    with Processes(plan, this_machine(), {"i": executable}, None, prepare([])) as launcher:
        good, bad = launcher(cells, 0)

    assert (good.status, bad.status) == ("ok", "failed")
    assert len(took_s) == 4
    assert good.wall_s + bad.wall_s == pytest.approx(sum(took_s))


def stop_while_it_prepares(store):
    """Begin a run of two experiments, and stop it before the one that needs to be provided for."""

    def stop():
        raise KeyboardInterrupt

    request = lab.Request(
        experiments=["sleep", "context-switch-one-way"], interpreters=["3.13"], launches=1, store=store
    )
    with pytest.raises(KeyboardInterrupt):
        lab.run(request, provide=stop)


def test_a_run_that_was_stopped_while_something_was_provided_is_completed(store_path, at_once):
    """A run that was stopped while it prepared is completed; cells that cannot run here are left out."""
    stop_while_it_prepares(store_path)
    begun = lab.load_run(store=store_path)
    assert begun.settings.unprepared == ("context-switch-one-way",)
    assert {one.cell.experiment for one in begun.results.values() if one.launches} == {"sleep"}

    run = lab.resume(store_path=store_path)

    assert run.header.complete
    assert run.settings.unprepared == ()
    assert {one.cell.experiment for one in run.results.values() if one.launches} == {"sleep", "context-switch-one-way"}


def test_a_run_does_not_go_on_under_another_headway_processor_or_kernel(store_path, at_once, monkeypatch):
    """A run is not completed with figures of another Headway, processor or kernel; one that is complete is only read."""
    stop_while_it_prepares(store_path)
    here = this_machine()
    for name, value, said in (
        ("__version__", "0.0.1", "Headway .*, which is now 0.0.1"),
        ("this_machine", lambda: replace(here, cpu="Another"), "the processor .*, which is now Another"),
        ("this_machine", lambda: replace(here, kernel="1.0"), "the kernel .*, which is now 1.0"),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(as_begun if name == "__version__" else runner, name, value)
            with pytest.raises(UsageError, match=said):
                lab.resume(store_path=store_path)

    assert lab.resume(store_path=store_path).header.complete
    monkeypatch.setattr(as_begun, "__version__", "0.0.1")
    assert lab.resume(store_path=store_path).header.complete


def test_three_lines_of_python_give_values():
    """`lab.run` returns a run whose levels, ratios and verdicts are values."""
    run = lab.run(lab.Request(experiments=["sleep"], interpreters=["3.14"], launches=2))
    verdicts = {one.claim.id: one for one in lab.judge(run)}

    gather = verdicts["sleep/gather-is-longest"]
    told = gather.deciding.interval
    # The lab decides how near it comes to 1/3; a test beside other tests cannot.
    assert 0 < told.low < told.value < told.high
    result = next(result for result in run.of("sleep") if result.cell.label == "serial")
    assert len(result.values("work_s")) == 2
    assert result.level("work_s").value >= 0.06
    assert result.values("interpreter_start_s")[0] > 0
    assert run.settings.doctor


@pytest.mark.times
def test_two_runs_are_compared():
    """The same experiment twice gives a ratio with an interval for each cell, and no false difference in the sleeps."""
    request = lab.Request(experiments=["sleep"], interpreters=["3.14"], launches=3)
    before, after = lab.run(request), lab.run(request)

    differences = lab.compare(before, after)

    assert len(differences) == 4
    for one in differences:
        assert one.ratio.low < 1.1
        assert one.ratio.high > 0.9
    other = lab.run(lab.Request(experiments=["race"], models=["threads"], interpreters=["3.14"], launches=1))
    with pytest.raises(StoreError, match="no cell in common"):
        lab.compare(before, other)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (lab.Request(experiments=["slep"]), UsageError),
        (lab.Request(size="huge"), UsageError),
        (lab.Request(placement="upstairs"), UsageError),
        (lab.Request(launches=0), UsageError),
        (lab.Request(launches=10**12), UsageError),
        (lab.Request(limit_s=-1), UsageError),
        (lab.Request(limit_s=float("nan")), UsageError),
        (lab.Request(limit_s=float("inf")), UsageError),
        (lab.Request(memory_limit_bytes=10**40), UsageError),
        (lab.Request(interpreters=["3.7"]), InterpreterError),
        (lab.Request(interpreters=["/bin/true"]), InterpreterError),
        (lab.Request(experiments=["sleep"], models=["interpreters"]), UsageError),
        (lab.Request(store=Path("/proc/nowhere/results.sqlite")), StoreError),
    ],
)
def test_bad_requests_fail_before_anything_runs(request_, error, store_path):
    """A request that cannot be run stores nothing, and its error has a hint."""
    with pytest.raises(error) as caught:
        lab.run(request_)

    assert caught.value.message
    assert caught.value.hint
    assert not store_path.exists() or Store(store_path).runs() == []
