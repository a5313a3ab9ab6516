"""`headway lab --dask` that is told to stop: its machines are free for others at once."""

import contextlib
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter, make_settings

from headway import lab
from headway.cli.main import main
from headway.dask import lab_worker
from headway.lab.kept.launched import Launch
from headway.lab.plan import Plan

GIL = make_interpreter()
CELL = make_cell("sleep", "serial", GIL.id)
MANY = 300


class Cluster:
    """A fake cluster of two machines; this process gets a signal at the third launch, after each machine has begun its first."""

    def __init__(self, number):
        self.number, self.launched, self.begun, self.ended = number, 0, [], []
        self.lock = threading.Lock()
        self.both, self.working = threading.Barrier(2), set()

    def hosts(self):
        return {"one": ["tcp://one:1"], "two": ["tcp://two:1"]}

    def ask(self, address, function, token, *arguments, gone):
        if function is lab_worker.begin:
            self.begun.append(token)
            _, cluster, host = arguments
            settings = make_settings(launches=MANY, interpreters=(GIL,), experiments=("sleep",))
            plan = Plan("quick", MANY, None, 1, 30.0, None, (CELL,), ())
            return replace(settings, cluster=cluster, host=host), plan
        if function is lab_worker.end:
            self.ended.append(token)
            return None
        if address not in self.working:  # one machine may be through with many launches before the other one begins
            self.working.add(address)
            self.both.wait()
        with self.lock:  # the machines launch at the same time, and there is one signal
            self.launched += 1
            if self.launched == 3:
                os.kill(os.getpid(), self.number)
        return 1, [Launch("ok", samples={"work_s": [1.0]}, wall_s=1.0)]


@pytest.fixture
def unheard():
    """Have signals that nothing but a list hears."""
    heard = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda came, _frame: heard.append(came)) for number in numbers}
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_on_each_machine(number, unheard, monkeypatch, tmp_path, capsys):
    """Each worker is told of the end of its run, so its machine's lock is free; the exit code is that of the signal."""
    cluster = Cluster(number)
    monkeypatch.setattr("headway.dask.cluster.connected", lambda _: contextlib.nullcontext(cluster))
    store = tmp_path / "results.sqlite"
    before = signal.getsignal(number)

    code = main(["lab", "sleep", "--dask", "tcp://nowhere:1", "--store", str(store)])

    assert code == 128 + number
    assert sorted(cluster.ended) == sorted(cluster.begun)
    assert len(cluster.begun) == 2
    assert cluster.launched < 2 * MANY
    assert unheard == []
    assert signal.getsignal(number) == before
    assert "stopped" in capsys.readouterr().err
    with lab.Store(store) as results:
        assert [run.complete for run in results.runs()] == [False, False]


def test_a_signal_that_comes_before_all_machines_have_work_lets_none_begin(unheard, monkeypatch, tmp_path):
    """The executor does not wait for a thread that it was just starting: a run on that machine would outlive the command."""
    cluster = Cluster(signal.SIGINT)

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *arguments):
            super().submit(*arguments)
            raise KeyboardInterrupt

    monkeypatch.setattr("headway.dask.lab_run.ThreadPoolExecutor", Interrupted)
    monkeypatch.setattr("headway.dask.cluster.connected", lambda _: contextlib.nullcontext(cluster))

    assert main(["lab", "sleep", "--dask", "tcp://nowhere:1", "--store", str(tmp_path / "results.sqlite")]) == 130
    assert (cluster.begun, cluster.launched) == ([], 0)
