"""A real Dask cluster: tasks that starve a worker's loop, recordings of a worker, policies, and workers that die."""

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dask_cluster import ROOT, Cluster, environment, wait_for
from ports import free_port
from provision.locked_environment import locked_python

from headway.lab import discover, select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TASKS = """
import ctypes, sys, time

def keeps(number):
    ctypes.PyDLL(None).usleep(400_000)      # one call of C that keeps the GIL
    return number

def lets(number):
    time.sleep(0.4)
    return number

def small(number):
    return number
"""

CLIENT = """
import json, sys
from distributed import Client
import tasks
from headway.dask import HeadwayWorker

def main():
    client = Client(sys.argv[1])
    for line in sys.stdin:
        name, number = line.split()
        if name == "policy":
            client.register_plugin(HeadwayWorker(policy=number))
            print("on", flush=True)
            continue
        if name == "register":
            client.register_plugin(HeadwayWorker(over_s=0.1))
            print("on", flush=True)
            continue
        found = client.gather(client.map(getattr(tasks, name), range(int(number)), key=None, pure=False))
        print(len(found), flush=True)

main()
"""

SHARED = """
import sys
from distributed import Client, LocalCluster
import headway
from headway.dask import HeadwayWorker
from headway.dask.worker import take_recording
from headway.live.own_recorder import the_recorder

def state(cluster):
    return the_recorder().active, [one.plugins["headway"]._schedule.active for one in cluster.workers.values()]

if sys.argv[1:] == ["own"]:
    headway.watch("mine", quiet=True)
with LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
    client.register_plugin(HeadwayWorker("fair"))
    print(*state(cluster))
    first = next(iter(cluster.workers.values()))
    client.retire_workers([first.address])
    cluster.sync(first.close)
    other = next(one for one in cluster.workers.values() if one is not first)
    print(the_recorder().active, [other.plugins["headway"]._schedule.active])
    print(len(cluster.sync(take_recording, other)[1]) > 0)
print(the_recorder().active)
"""


@pytest.fixture(scope="module")
def python():
    """Return the Python of an environment with distributed."""
    return locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")


def client_of(cluster):
    """Start a client; return a function that sends it a line and returns its answer."""
    client = subprocess.Popen(
        [cluster.python, "client.py", cluster.address],
        env=cluster.env,
        cwd=cluster.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    cluster.stack.enter_context(client)
    cluster.stack.callback(client.kill)

    def do(line):
        client.stdin.write(line + "\n")
        client.stdin.flush()
        return client.stdout.readline().strip()

    return do


@pytest.fixture
def cluster(python, tmp_path):
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "client.py").write_text(CLIENT)
    with contextlib.ExitStack() as stack:
        yield Cluster(python, tmp_path, stack)


@pytest.fixture
def small_cluster(python, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Cluster(python, tmp_path, stack, workers=1)


@contextlib.contextmanager
def tasks_go_on(do, line):
    """Have tasks run while the `with` lasts, which on a busy machine is for as long as a look takes to begin."""
    over = threading.Event()

    def again():
        while not over.is_set():
            assert do(line)

    with ThreadPoolExecutor(1) as own_thread:
        going_on = own_thread.submit(again)
        try:
            yield
        finally:
            over.set()
        going_on.result()


def by_prefix(found):
    sums = {}
    for worker in found["workers"]:
        for task in worker["tasks"]:
            sums.setdefault(task["prefix"], []).append(task)
    return sums


def test_the_tasks_that_starve_the_loops_are_named(cluster, tmp_path):
    """Tasks that starve a loop are named, with hold and wait by key prefix and worker.

    Stalls have their line, and a recording is fetched from the worker that stood still.
    """
    assert all(not one["is_told"] for one in cluster.look()["workers"])
    do = client_of(cluster)
    assert do("register 1") == "on"
    assert (do("keeps 6"), do("lets 6"), do("small 40")) == ("6", "6", "40")

    def told():
        """Return a look with all tasks, and with a stall of each worker."""
        one = cluster.look()
        counts = {name: sum(task["count"] for task in some) for name, some in by_prefix(one).items()}
        stalled = all("GIL" in (worker["stalls"] or ()) for worker in one["workers"])
        return stalled and counts == {"keeps": 6, "lets": 6, "small": 40} and one

    found = wait_for(told, "some tasks, or the stalls, were not told")
    assert [one["policy"] for one in found["workers"]] == ["", ""]
    assert all(one["knocked_share"] is not None for one in found["workers"])
    # On a busy machine a loop may also stall by itself (no core, the disk, an import); that is in code of its own, never in a task's.
    assert not any(
        "tasks.py" in one["last_stall"] for one in found["workers"] if "the GIL held by" not in one["last_stall"]
    )
    by_tasks = [one["last_stall"] for one in found["workers"] if set(one["stalls"]) == {"GIL"}]
    assert all("tasks.py:5 keeps, in one call of C" in line for line in by_tasks)

    done = cluster.headway("dask", cluster.address, "--record", "w2", "-o", str(tmp_path))
    assert done.returncode == 0, done.stderr
    recording = Path(done.stdout.strip())
    assert recording.parent == tmp_path
    assert (
        "tasks.py:5 keeps"
        in subprocess.run(
            [Path(sys.executable).with_name("headway"), "stalls", recording, "--each"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )

    with tasks_go_on(do, "keeps 12"):
        wait_for(
            # In an interval much longer than a task, the loop of each worker waits for several.
            lambda: all((one["loop_wait_share"] or 0) > 0.1 for one in cluster.look(interval_s=1.5)["workers"]),
            "it was not told that the loops waited",
        )


def test_what_tasks_did_is_exact(cluster):
    """The holds of tasks that keep the GIL, and of tasks that release it, have their exact lengths."""
    do = client_of(cluster)
    do("register 1")
    do("keeps 4"), do("lets 4"), do("small 40")

    def look():
        tasks = by_prefix(cluster.look())
        return sum(one["count"] for some in tasks.values() for one in some) == 48 and tasks

    tasks = wait_for(look, "some tasks were not told")
    for task in tasks["keeps"]:
        assert task["hold_s"] >= 0.4 * task["count"]
        assert task["longest_hold_s"] >= 0.4
    for task in tasks["lets"]:
        assert task["run_s"] >= 0.4 * task["count"]
        # On a busy machine, a thread may lose its core while it holds the GIL; it holds none while it sleeps.
        assert task["run_s"] - task["hold_s"] >= 0.399 * task["count"]
    assert sum(task["count"] for task in tasks["small"]) == 40


def test_a_policy_on_the_workers_and_off_again(cluster):
    """The plugin schedules the workers' GILs if registered with a policy, and restores CPython's if registered without."""
    do = client_of(cluster)
    assert do("policy fair") == "on"
    wait_for(lambda: [one["policy"] for one in cluster.look()["workers"]] == ["fair", "fair"], "there is no policy")
    assert do("small 50") == "50"
    assert do("register 1") == "on"
    wait_for(lambda: [one["policy"] for one in cluster.look()["workers"]] == ["", ""], "the policy stayed")


@pytest.mark.parametrize("own", [[], ["own"]], ids=["the plugin's watch", "a watch of the program"])
def test_workers_of_one_process_share_a_watch_and_a_policy(python, tmp_path, own):
    """A closed worker ends neither for the others in its process; the last ends only what the plugin has begun."""
    (tmp_path / "shared.py").write_text(SHARED)
    done = subprocess.run(
        [python, "shared.py", *own],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == ["True [True, True]", "True [True]", "True", str(bool(own))], done.stderr
    assert "active already" not in done.stderr


def test_what_cannot_be_done_is_said(small_cluster, tmp_path):
    """A missing scheduler, a missing worker, a worker that is not watched, and a missing folder are errors."""
    cluster = small_cluster
    nobody = cluster.headway("dask", f"tcp://127.0.0.1:{free_port()}", "--count", "1")
    assert nobody.returncode != 0
    assert "there is no scheduler at" in nobody.stderr
    assert "hint:" in nobody.stderr
    no_worker = cluster.headway("dask", cluster.address, "--record", "w7")
    assert no_worker.returncode == 2
    assert "there is no worker 'w7'" in no_worker.stderr
    not_watched = cluster.headway("dask", cluster.address, "--record", "w1")
    assert not_watched.returncode != 0
    assert "register HeadwayWorker() first" in not_watched.stderr
    no_folder = cluster.headway("dask", cluster.address, "--record", "w1", "-o", str(tmp_path / "nowhere"))
    assert no_folder.returncode == 2
    for one in (nobody, no_worker, not_watched, no_folder):
        assert "Traceback" not in one.stderr
