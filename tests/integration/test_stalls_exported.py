"""Event loops' delay and stalls by cause as OpenTelemetry exports them from a process that is watched, and from others."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from waiting import state_of, wait_for

from headway.library import library_path

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 150  # see tests/support/real_programs.py

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, json, os, sys, time
from opentelemetry.sdk.metrics import Histogram, MeterProvider, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality, MetricExporter, MetricExportResult, PeriodicExportingMetricReader,
)
from headway.live import own_counts
from headway.live.metrics import instrument
from headway.live.otel_exporter import GilExporter

how, temporality = sys.argv[1], AggregationTemporality[sys.argv[2]]
PATIENT_S, IMPATIENT_S = 60.0, 0.1  # a watcher on a busy machine is late, and only one that is stopped does not answer
own_counts._PATIENCE_S, own_counts._AGAIN_S = PATIENT_S, 0.1
if how == "call":
    import headway
    headway.watch("stalls")

class Told(MetricExporter):
    def export(self, metrics_data, *_, **__):
        scopes = [scope for one in metrics_data.resource_metrics for scope in one.scope_metrics]
        metrics = {one.name: one for scope in scopes for one in scope.metrics}
        def points(name):
            return metrics[name].data.data_points if name in metrics else []
        found = {"pid": os.getpid(), "names": sorted(metrics), "units": {name: one.unit for name, one in metrics.items()}}
        for name in ("headway.stalls", "headway.stall.time"):
            found[name] = [
                [one.attributes["headway.stall.kind"], one.attributes["headway.stall.cause"], one.value]
                for one in points(name)
            ]
        found["delay"] = [[list(one.explicit_bounds), list(one.bucket_counts)] for one in points("asyncio.eventloop.delay")]
        print(json.dumps(found), flush=True)
        return MetricExportResult.SUCCESS
    def force_flush(self, *_, **__): return True
    def shutdown(self, *_, **__): pass

exporter = GilExporter(Told(preferred_temporality={Histogram: temporality, ObservableCounter: temporality}))
reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
provider = MeterProvider([reader], shutdown_on_exit=False)
instrument(provider, old_names=False)

def nap():
    time.sleep(0.4)

async def serve():
    while True:
        word = await asyncio.to_thread(os.read, 0, 1)
        if word == b"s":
            nap()
            await asyncio.sleep(0)
        elif word in (b"p", b"i"):
            own_counts._PATIENCE_S = PATIENT_S if word == b"p" else IMPATIENT_S
        elif word == b"e":
            await asyncio.to_thread(reader.force_flush)
        else:
            return word

async def begin():
    await asyncio.sleep(0.3)  # the loop is known to be one
    return await serve()

word = asyncio.run(begin())
if word == b"f":
    child = os.fork()
    if not child:
        asyncio.run(begin())
        os._exit(0)
    os.waitpid(child, 0)
"""


class Service:
    """The program, which does one thing for each letter that it gets."""

    def __init__(self, process):
        self._process = process

    def do(self, letter):
        self._process.stdin.write(letter)
        self._process.stdin.flush()

    def exported(self):
        """Return what one export has."""
        self.do("e")
        return json.loads(self._process.stdout.readline())


@contextlib.contextmanager
def started(folder, how, temporality="CUMULATIVE"):
    """Yield the program, watched in one of the ways; stderr goes to a file."""
    (folder / "app.py").write_text(PROGRAM)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HEADWAY_WATCH"))}
    env = plain | {"HEADWAY_NATIVE": str(library_path())} | ({"HEADWAY_WATCH": "stalls"} if how == "variable" else {})
    before = {
        "command": [HEADWAY, "watch", "--python", sys.executable],
        "trace": [HEADWAY, "trace", "-o", "app.hwt", "--python", sys.executable],
    }.get(how, [sys.executable])
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(
            [*before, "app.py", how, temporality],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=folder,
            env=env,
        ) as process,
    ):
        try:
            yield Service(process)
            process.stdin.close()
            assert process.wait(LIMIT_S) == 0, (folder / "said").read_text()
        finally:
            process.kill()


def stalls_in_log(folder, pid):
    """Return the number of a process's stalls by kind and cause that the log has."""
    rows = [
        json.loads(line)
        for log in (folder / "stalls").glob("*.stalls.jsonl")
        for line in log.read_text().splitlines()
        if line.endswith("}")
    ]
    return Counter((row["kind"], row["cause"]) for row in rows if row["pid"] == pid and not row["goes_on"])


class Exports:
    """The sum of all that a process has exported."""

    def __init__(self, service, temporality):
        self._service, self._is_delta = service, temporality == "DELTA"
        self.stalls, self.times_s, self.delays = Counter(), Counter(), Counter()
        self.last = {}

    def has_more(self):
        """Export once more."""
        self.last = self._service.exported()
        for sums, name in ((self.stalls, "headway.stalls"), (self.times_s, "headway.stall.time")):
            new = Counter({(kind, cause): value for kind, cause, value in self.last[name]})
            assert all(value >= 0 for value in new.values()), self.last
            self._add(sums, new)
        for bounds, counts in self.last["delay"]:
            self._add(self.delays, Counter(dict(zip([*bounds, float("inf")], counts, strict=True))))
        return self

    def _add(self, sums, new):
        if not self._is_delta and new:
            sums.clear()
        sums.update(new)

    def agree(self, folder, pid, before=None, known=0):
        """Tell whether a further sleep in the loop is exported, and exactly the stalls that the log has."""
        if stalls_in_log(folder, pid)["event loop", "blocking call"] <= known:
            return False  # an export costs more than a look at the log
        self.has_more()
        told = stalls_in_log(folder, pid)
        mine = Counter({key: value for key, value in self.stalls.items() if value}) - (before or Counter())
        return told["event loop", "blocking call"] > 0 and mine == told


@pytest.mark.matrix("how", "temporality")
@pytest.mark.parametrize(("how", "temporality"), [("command", "DELTA"), ("call", "CUMULATIVE"), ("variable", "DELTA")])
def test_stalls_are_exported_with_their_causes(tmp_path, how, temporality):
    """Number and time of stalls, and the loop's delay, are those of this process, however it came to be watched.

    A forked child's counters go on from the parent's, which the SDK remembers, and its histogram begins at 0.
    """
    with started(tmp_path, how, temporality) as service:
        of_parent = Exports(service, temporality)
        parent = of_parent.has_more().last["pid"]
        for _ in range(2):
            service.do("s")
            wait_for(
                lambda known=of_parent.stalls["event loop", "blocking call"]: (
                    of_parent.agree(tmp_path, parent, known=known)
                    and of_parent.stalls["event loop", "blocking call"] > known
                ),
                f"{of_parent.stalls}",
                LIMIT_S,
            )
        assert of_parent.times_s["event loop", "blocking call"] > 0.5
        long = {bound: count for bound, count in of_parent.delays.items() if bound > 0.4 and count}
        assert sum(long.values()) >= 2, of_parent.delays
        units = of_parent.last["units"]
        assert (units["headway.stalls"], units["headway.stall.time"]) == ("{stall}", "s")

        before = Counter() if temporality == "DELTA" else Counter(+of_parent.stalls)
        service.do("f")
        of_child = Exports(service, temporality)
        child = of_child.has_more().last["pid"]
        assert child != parent
        service.do("s")
        wait_for(lambda: of_child.agree(tmp_path, child, before), f"{of_child.stalls} after {before}", LIMIT_S)
        own = stalls_in_log(tmp_path, child)
        assert sum(count for bound, count in of_child.delays.items() if bound > 0.4) <= sum(own.values())
        service.do("q")
    assert "no metrics" not in (tmp_path / "said").read_text()


@pytest.mark.parametrize("how", ["alone", "trace"])
def test_a_process_that_is_not_watched_exports_no_stalls(tmp_path, how):
    """The GIL's metrics are there, and nothing is said: neither without a watcher, nor under `headway trace`."""
    with started(tmp_path, how) as service:
        service.do("s")
        found = service.exported()

        assert "cpython.gil.hold.time" in found["names"]
        assert (found["headway.stalls"], found["delay"]) == ([], [])
    assert "no metrics" not in (tmp_path / "said").read_text()


def watcher_of(folder):
    """Return the id of the watcher that has a process's folder as its own."""
    for found in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (found / "comm").read_text().strip() == "headway-watch" and (
                found / "cwd"
            ).resolve() == folder / "stalls":
                return int(found.name)
    raise AssertionError("there is no watcher")


def has_ended(pid):
    """Tell whether a process with all its threads has closed its descriptors, even if its parent has not waited for it."""
    try:
        return state_of(pid) in ("Z", "X") and len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_watcher_that_is_stopped_and_killed_delays_no_export(tmp_path):
    """Exports go on without its metrics, these are back if it is, and one line says that they are missing."""
    with started(tmp_path, "call") as service:
        wait_for(lambda: service.exported()["headway.stalls"], "the watcher does not answer", LIMIT_S)
        watcher = watcher_of(tmp_path)
        os.kill(watcher, signal.SIGSTOP)
        wait_for(lambda: state_of(watcher) == "T")
        service.do("i")
        wait_for(lambda: not service.exported()["headway.stalls"], "a stopped watcher answers", LIMIT_S)
        service.do("p")
        os.kill(watcher, signal.SIGCONT)
        wait_for(lambda: service.exported()["headway.stalls"], "the metrics are not back", LIMIT_S)
        os.kill(watcher, signal.SIGKILL)
        wait_for(lambda: has_ended(watcher))
        found = wait_for(lambda: (one := service.exported())["headway.stalls"] == [] and one, "", LIMIT_S)

        assert "cpython.gil.hold.duration" in found["names"]
        assert found["delay"] == []
    said = (tmp_path / "said").read_text()
    (line,) = [one for one in said.splitlines() if "no metrics" in one]
    assert line.endswith(
        "there are no metrics of event loops and stalls: the watcher does not answer: Connection refused"
    )
