"""The lab on a real Dask cluster: one run per machine in one store, a killed worker, and a resumed run."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess

import pytest
from dask_cluster import ROOT, Cluster, wait_for
from ports import free_port
from provision.locked_environment import locked_python

from headway.lab import discover, select

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOSTS = ["127.0.0.2", "127.0.0.3"]
WHAT = ["sleep", "--interpreter", "3.13", "--model", "threads"]


@pytest.fixture(scope="module")
def python():
    """Return the Python of an environment with distributed."""
    return locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")


@pytest.fixture
def cluster(python, tmp_path):
    """Yield two "machines" that measure at the same time, because each has its own cache, and so its own lab's lock."""
    with contextlib.ExitStack() as stack:
        yield Cluster(python, tmp_path, stack, nannies=True, XDG_CACHE_HOME=str(tmp_path / "cache{number}"))


@pytest.fixture
def small_cluster(python, tmp_path):
    with contextlib.ExitStack() as stack:
        yield Cluster(python, tmp_path, stack, workers=1)


def launches(store, run):
    """Return the status and the worker's process of each launch, by cell and block."""
    with contextlib.closing(sqlite3.connect(store)) as db:
        rows = db.execute(
            "SELECT c.key, l.block, l.status, l.facts FROM launches l JOIN cells c ON c.id = l.cell WHERE c.run = ?",
            (run,),
        ).fetchall()
    return {(key, block): (status, json.loads(facts)["worker"]) for key, block, status, facts in rows}


def so_far(store, query):
    """Return the rows of a query while the store is being written, or none if there is no store yet."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as db,
    ):
        return db.execute(query).fetchall()
    return []


def test_each_machine_s_run_is_in_the_one_store(cluster, tmp_path):
    """Both machines measure the same cells, each in an ordinary run, and claims say on how many machines they hold."""
    store = tmp_path / "results.sqlite"
    done = cluster.headway(
        "lab", "--dask", cluster.address, *WHAT, "--launches", "2", "--in-turns", "--store", str(store), "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert [one["host"] for one in found["runs"]] == HOSTS
    assert all(one["complete"] for one in found["runs"])
    assert found["lost"] == {}
    first, second = (launches(store, one["run"]) for one in found["runs"])
    assert set(first) == set(second)
    assert {block for _, block in first} == {0, 1}
    assert {status for status, _ in (*first.values(), *second.values())} == {"ok"}
    for host, rows in zip(HOSTS, (first, second), strict=True):
        assert len({worker for _, worker in rows.values()}) == 1
        assert all(worker.startswith(host) for _, worker in rows.values())
    measured = [one for one in found["claims"] if all(m["value"] is not None for m in one["machines"])]
    assert measured
    assert all([m["host"] for m in one["machines"]] == HOSTS for one in measured)
    assert all("of 2 machines" in one["over_machines"] for one in measured)
    report = cluster.headway("report", found["runs"][1]["run"], "--store", str(store))
    assert report.returncode == 0, report.stderr
    assert "sleep" in report.stdout


def test_a_worker_that_is_killed_costs_the_launch_in_flight(cluster, tmp_path):
    """The nanny's next worker goes on with the run, and no cell has a launch twice, nor one too few."""
    store = tmp_path / "results.sqlite"
    command = ["lab", "--dask", cluster.address, *WHAT, "--launches", "4", "--store", str(store), "--json"]
    with subprocess.Popen(
        [cluster.python, "-m", "headway", *command],
        env=cluster.env,
        cwd=cluster.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as lab:

        def workers():
            """Return the processes that have launched on the first host."""
            told = (json.loads(facts)["worker"] for (facts,) in so_far(store, "SELECT facts FROM launches"))
            return {int(one.rpartition(" ")[2]) for one in told if one.startswith(HOSTS[0])}

        (pid,) = wait_for(workers, "nothing was launched")
        os.kill(pid, signal.SIGKILL)
        out, said = lab.communicate(timeout=240)
    assert lab.returncode == 0, said
    found = json.loads(out)

    assert all(one["complete"] for one in found["runs"])
    first, second = (launches(store, one["run"]) for one in found["runs"])
    assert set(first) == set(second)
    assert len({worker for _, worker in first.values()}) == 2
    assert len({worker for _, worker in second.values()}) == 1
    assert {status for status, _ in first.values()} == {"ok"}
    assert "another worker continues run" in said


def test_a_run_that_was_cut_short_goes_on(cluster, tmp_path):
    """A killed coordinator loses the launches in flight, and --resume NAME completes each run on its machine."""
    store = tmp_path / "results.sqlite"
    command = ["lab", "--dask", cluster.address, *WHAT, "--launches", "3", "--store", str(store)]
    with subprocess.Popen(
        [cluster.python, "-m", "headway", *command],
        env=cluster.env,
        cwd=cluster.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as lab:
        name = lab.stderr.readline().split()[2]

        def count():
            return len(so_far(store, "SELECT id FROM launches"))

        def machines():
            return len(so_far(store, "SELECT DISTINCT cells.run FROM launches JOIN cells ON cells.id = launches.cell"))

        wait_for(lambda: count() >= 3 and machines() == len(HOSTS), "a machine has launched nothing")
        lab.kill()
    before = count()
    done = cluster.headway("lab", "--dask", cluster.address, "--resume", name, "--store", str(store), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert [(one["host"], one["complete"]) for one in found["runs"]] == [(host, True) for host in HOSTS]
    first, second = (launches(store, one["run"]) for one in found["runs"])
    assert set(first) == set(second)
    assert len(first) + len(second) > before
    assert {block for _, block in first} == {0, 1, 2}
    again = cluster.headway("lab", "--dask", cluster.address, "--resume", name, "--store", str(store))
    assert again.returncode == 0, again.stderr
    assert "of 2 machines" in again.stdout


def test_what_cannot_be_done_is_said(small_cluster, tmp_path):
    """A missing scheduler, an unknown run, and options that do not go together are errors."""
    cluster = small_cluster
    store = ["--store", str(tmp_path / "results.sqlite")]
    nobody = cluster.headway("lab", "--dask", f"tcp://127.0.0.1:{free_port()}", *WHAT, *store)
    assert "there is no scheduler at" in nobody.stderr
    (tmp_path / "other.sqlite").unlink(missing_ok=True)
    together = cluster.headway("lab", "--dask", cluster.address, "--html", "x.html", *WHAT, *store)
    assert "--dask cannot be combined with" in together.stderr
    done = cluster.headway("lab", "--dask", cluster.address, "no-such-experiment", *store)
    assert "no-such-experiment" in done.stderr
    for one in (nobody, together, done):
        assert one.returncode != 0
        assert "hint:" in one.stderr
        assert "Traceback" not in one.stderr
