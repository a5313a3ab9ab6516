"""The common verdicts of several machines' runs, and the coordinator's reaction when workers die."""

import contextlib
import math
import threading
from types import SimpleNamespace

import pytest

from headway.dask import lab_run, lab_worker
from headway.dask.cluster import Cluster, ClusterError
from headway.errors import HeadwayError
from headway.lab.judging.machines import OnMachine, OverMachines
from headway.lab.kept.launched import Launch
from headway.lab.launching.request import Request
from headway.lab.stats import Interval
from headway.report.lab.machines import machines_to_json


def on(host, outcome, value=1.0, spread=0.1, what="2 threads / 1 thread"):
    """Return one machine's verdict, with the interval that it follows from."""
    interval = Interval(value, value * (1 - spread), value * (1 + spread), "student")
    return OnMachine(host, outcome, SimpleNamespace(what=what, interval=interval))


def over(*machines):
    return OverMachines("flat", "countdown", "time does not fall", machines)


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        (["supported"] * 4, "holds on 4 of 4 machines"),
        (["supported", "supported", "refuted", "inconclusive"], "holds on 2 of 4 machines, does not on 1, open on 1"),
        (["supported", "at the limit"], "holds on 1 of 2 machines"),
        (["inconclusive", "not measured"], "decided on none of 2 machines"),
    ],
)
def test_on_how_many_machines_a_claim_holds(outcomes, sentence):
    """The sentence counts decided and open machines separately."""
    assert over(*(on(f"h{number}", outcome) for number, outcome in enumerate(outcomes))).sentence == sentence


def test_machines_differ_where_intervals_do_not_overlap():
    """The two machines that are farthest apart are named; figures of different comparisons are not compared."""
    same = over(on("a", "supported", 1.0), on("b", "supported", 1.05))
    differ = over(on("a", "supported", 1.0), on("b", "refuted", 0.5), on("c", "supported", 1.4))
    other = over(on("a", "supported", 1.0), on("b", "refuted", 0.5, what="8 threads / 1 thread"))

    assert same.effect == other.effect == ""
    assert differ.effect == "machines differ in 2 threads / 1 thread: b 0.50 [0.45-0.55], c 1.40 [1.26-1.54]"


def test_a_machine_without_a_figure_says_nothing():
    """A machine on which a claim was not measured has no effect."""
    assert over(on("a", "supported"), OnMachine("b", "not measured", None)).effect == ""


def test_a_figure_of_one_launch_has_no_ends_as_json():
    """One launch bounds nothing, and JSON has no infinity."""
    alone = SimpleNamespace(what="2 threads / 1 thread", interval=Interval(1.2, 0.0, math.inf, "student"))
    values = machines_to_json([], [over(OnMachine("a", "inconclusive", alone), on("b", "supported"))])

    first, second = values["claims"][0]["machines"]
    assert (first["value"], first["low"], first["high"]) == (1.2, None, None)
    assert (second["low"], second["high"]) == (0.9, 1.1)


class Host:
    """A host whose workers die `deaths` times."""

    def __init__(self, deaths, error=lab_run._WorkerDiedError):
        self.host = "h1"
        self.deaths, self.error = deaths, error

    def ask(self, function, *arguments):
        assert function is lab_worker.launch
        if self.deaths:
            self.deaths -= 1
            raise self.error
        return 42, [Launch(status="ok")]


@pytest.mark.parametrize("error", [lab_run._WorkerDiedError, lab_worker.NotBegunError])
def test_a_block_is_launched_again_where_a_worker_died(error):
    """A block is launched again on the host's next worker, and the launch names the worker."""
    begun = []
    host = Host(2, error)
    (one,) = lab_run._Launcher(host, "token", lambda: begun.append(1), lab_run.contextlib.nullcontext())(["cell"], 0)

    assert (one.status, one.facts["worker"], len(begun)) == ("ok", "h1, process 42", 2)


def test_what_kills_each_worker_is_a_failed_launch():
    """A launch fails after the third worker died, so that one cell cannot hold up all others."""
    host = Host(99)
    found = lab_run._Launcher(host, "token", lambda: None, lab_run.contextlib.nullcontext())(["cell", "other"], 0)

    assert [one.status for one in found] == ["failed", "failed"]
    assert "3 workers of h1 died" in found[0].reason


@pytest.fixture
def begun(monkeypatch):
    """Return a function that begins a run of a cluster in this process, which gets an event that is set at its end."""
    monkeypatch.setattr(lab_worker, "only_lab", contextlib.nullcontext)
    monkeypatch.setattr(lab_worker, "plan_of", lambda *_: None)
    ended = {}

    @contextlib.contextmanager
    def launcher(token):
        ended[token] = threading.Event()
        try:
            yield lambda cells, block: [Launch(status="ok")]
        finally:
            ended[token].set()

    def begin(token, cluster):
        made = SimpleNamespace(settings=SimpleNamespace(cluster=cluster), plan=None, launcher=launcher(token))
        monkeypatch.setattr(lab_worker, "ready_again", lambda *_: made)
        lab_worker.begin_again(token, made.settings, [], [])
        return ended[token]

    yield begin
    for token in ended:
        lab_worker.end(token)


def test_two_cluster_runs_do_not_end_each_other(begun, monkeypatch):
    """A worker refuses a second cluster run while the first one launches, and a client ends no run but its own."""
    ended = begun("a", "first")
    with pytest.raises(HeadwayError, match="cluster run first measures on this machine") as refused:
        begun("b", "second")
    lab_worker.end("b")

    assert refused.value.hint.startswith("wait until it ends, or for 60 s ")
    assert not ended.is_set()
    assert lab_worker.launch("a", ["cell"], 0)[1][0].status == "ok"
    monkeypatch.setattr(lab_worker, "_TAKEN_S", 0.0)  # the first one has launched nothing for that long
    again = begun("b", "second")
    assert (ended.is_set(), again.is_set()) == (True, False)
    with pytest.raises(lab_worker.NotBegunError):
        lab_worker.launch("a", ["cell"], 0)


def test_a_run_that_is_resumed_at_once_takes_the_place_of_its_own(begun):
    """The client that began it was killed, and its run goes on under another token."""
    ended = begun("a", "first")
    again = begun("b", "first")
    assert (ended.is_set(), again.is_set()) == (True, False)


def test_a_run_whose_client_is_gone_ends_by_itself(begun, monkeypatch):
    """A worker gives the lab's lock and the servers back if nobody launches any more."""
    monkeypatch.setattr(lab_worker, "_IDLE_S", 0.0)
    assert begun("a", "first").wait(30)


@pytest.mark.parametrize(
    ("error", "present", "asked"),
    [(KeyboardInterrupt(), True, True), (HeadwayError("stopped"), True, True), (HeadwayError("gone"), False, False)],
)
def test_a_run_ends_on_its_worker_however_it_ends(monkeypatch, tmp_path, error, present, asked):
    """An interrupted or failed run leaves nothing on a worker; a worker that is gone is not waited for."""
    calls, address = [], "tcp://h1:1"

    def ask(address, function, *arguments, gone):
        calls.append(function)
        return SimpleNamespace(), SimpleNamespace(cells=())

    def fails(*_):
        one.hosts = lambda: {"h1": [address]} if present else {}
        raise error

    one = SimpleNamespace(hosts=lambda: {"h1": [address]}, ask=ask)
    monkeypatch.setattr(lab_run, "Store", lambda *_, **__: contextlib.nullcontext(SimpleNamespace(new_run=fails)))
    measuring = lab_run._Measuring(one, tmp_path, lambda *_: None, lambda _: None, in_turns=False)
    with pytest.raises(type(error)):
        measuring.begin("h1", Request(experiments=["sleep"]), "first")

    assert (lab_worker.end in calls) == asked


class WithoutHeadway:
    """The client of a cluster of two machines whose scheduler cannot read what it is sent."""

    def __init__(self):
        self.scheduler = SimpleNamespace(identity=None)

    def sync(self, *_, **__):
        return {"workers": {"tcp://h1:1": {}, "tcp://h2:1": {}}}

    def submit(self, *_, **__):
        return SimpleNamespace(done=lambda: True, result=self.fail, release=lambda: None)

    def fail(self):
        raise RuntimeError("Error during deserialization of the task graph. This frequently occurs\nif environments")


def test_a_cluster_without_headway_is_an_error_with_a_hint(tmp_path):
    """Each machine that cannot be asked is lost, for a reason of one line, and the hint says what to install."""
    said = []
    request = Request(experiments=["sleep"], store=tmp_path / "results.sqlite")
    with pytest.raises(ClusterError, match="no machine could start: h1: worker tcp://h1:1 gives no answer") as failed:
        lab_run.run_on(Cluster(WithoutHeadway()), request, report=lambda *_: None, say=said.append)

    assert "install this version of headway" in failed.value.hint
    assert [line.partition(":")[0] for line in said[1:]] == ["h1", "h2"]
    assert not any("\n" in line for line in said)
