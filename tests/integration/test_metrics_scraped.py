"""Metrics with their real consumers (Prometheus, Grafana's dashboard, OpenTelemetry's OTLP exporter); stopped worlds."""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from ports import free_port
from provision.locked_environment import locked_python
from provision.prometheus import find_prometheus

from headway.lab import discover, select
from headway.library import library_path
from headway.live.collect import collecting
from headway.live.launch import environment
from headway.live.roles import Roles, series
from headway.live.watch import Watch

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 150  # see tests/support/real_programs.py

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import asyncio, sys, threading, time

def nap():
    time.sleep(0.3)

async def main():
    await asyncio.sleep(0.3)
    while True:
        await asyncio.sleep(0.5)
        nap()

threading.Thread(target=sys.stdin.read, name="reader-1", daemon=True).start()
asyncio.run(main())
"""

EXPORTS = """
import http.server, json, sys, threading
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from headway.live.metrics import instrument
from headway.live.otel_exporter import GilExporter

found = []

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = ExportMetricsServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        found.append(MessageToDict(request))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass

server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True, name="receiver-1").start()
exporter = OTLPMetricExporter(f"http://127.0.0.1:{server.server_port}/v1/metrics")
reader = PeriodicExportingMetricReader(GilExporter(exporter), export_interval_millis=3_600_000)
provider = MeterProvider([reader])
instrument(provider, old_names=False)
for _ in range(2):
    for _ in range(100): sum(range(20000))
    reader.force_flush()
provider.shutdown()
json.dump(found, sys.stdout)
"""


def fetched(url):
    """Return the text at a URL, or None while there is no answer."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
        return answer.read().decode()
    return None


def wait_for(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def running(*command, **more):
    with subprocess.Popen([str(one) for one in command], **more) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def test_prometheus_scrapes_a_watched_service_and_the_dashboard_s_questions_have_answers(tmp_path, monkeypatch):
    """A real Prometheus scrapes all metrics of the dashboard, with their types, and each panel shows something."""
    program = find_prometheus()
    assert program is not None, "there is no Prometheus: `make prometheus` adds it"
    monkeypatch.chdir(tmp_path)
    Path("service.py").write_text(PROGRAM)
    watched, served = free_port(), free_port()
    Path("prometheus.yml").write_text(
        "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
        f"scrape_configs: [{{job_name: service, static_configs: [{{targets: ['127.0.0.1:{watched}']}}]}}]\n"
    )
    headway = Path(sys.executable).with_name("headway")
    with (
        running(
            *(headway, "watch", "--listen", f"127.0.0.1:{watched}", "--python", sys.executable, "service.py"),
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ),
        running(
            *(program, "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{served}"),
            *("--storage.tsdb.path=data", "--log.level=error"),
            stderr=subprocess.DEVNULL,
        ),
    ):

        def asked(expression):
            query = urllib.parse.urlencode({"query": expression})
            text = fetched(f"http://127.0.0.1:{served}/api/v1/query?{query}")
            answer = {} if text is None else json.loads(text)
            assert text is None or answer["status"] == "success", text
            return [(one["metric"], float(one["value"][1])) for one in answer.get("data", {}).get("result", [])]

        # On a busy machine, the loop has stalls for want of a core, too, and the analysis of a stall has a tenth of one.
        told = 'headway_stalls_total{cause="blocking call"} >= 1'
        ((stall, _),) = wait_for(lambda: asked(told), "no stall was scraped")
        assert (stall["kind"], stall["job"]) == ("event loop", "service")

        dashboard = json.loads(fetched(f"http://127.0.0.1:{watched}/dashboard"))
        expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        assert len(expressions) >= 10
        for expression in expressions:
            concrete = expression.replace("$__rate_interval", "20s").replace("$job", "service")
            wait_for(lambda concrete=concrete: asked(concrete), f"nothing answers {concrete}")
        types = json.loads(fetched(f"http://127.0.0.1:{served}/api/v1/metadata"))["data"]
        assert {
            name: types[name][0]["type"] for name in types if name.startswith(("cpython", "asyncio", "headway"))
        } == {
            "headway_stalls_total": "counter",
            "headway_stalls_seconds_total": "counter",
            "headway_watched_processes": "gauge",
            "asyncio_eventloop_delay_seconds": "histogram",
            "cpython_gil_wait_duration_seconds": "histogram",
            "cpython_gil_hold_duration_seconds": "histogram",
            "cpython_stop_the_world_duration_seconds": "histogram",
            "cpython_gil_hold_time_seconds_total": "counter",
            "cpython_gil_wait_time_seconds_total": "counter",
            "cpython_gil_handoffs_total": "counter",
        }


def test_the_otlp_exporter_sends_the_histograms():
    """Each export has cumulative histograms of single waits and holds, beside the instruments."""
    python = locked_python(select(discover()[0], ["3.13"])[0], ROOT / "requirements" / "watched.lock", "watched")
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HEADWAY_NATIVE": str(library_path())}
    done = subprocess.run(
        [python, "-c", EXPORTS], capture_output=True, text=True, check=False, timeout=LIMIT_S, env=env
    )
    assert done.returncode == 0, done.stderr
    exports = [
        {metric["name"]: metric for scope in one["resourceMetrics"][0]["scopeMetrics"] for metric in scope["metrics"]}
        for one in json.loads(done.stdout)
    ]

    assert set(exports[0]) == {
        "cpython.gil.hold.time",
        "cpython.gil.wait.time",
        "cpython.gil.handoffs",
        "cpython.gil.enabled",
        "cpython.gil.wait.duration",
        "cpython.gil.hold.duration",
    }
    counts = []
    for one in exports[:2]:
        hold = one["cpython.gil.hold.duration"]
        assert (hold["unit"], hold["histogram"]["aggregationTemporality"]) == (
            "s",
            "AGGREGATION_TEMPORALITY_CUMULATIVE",
        )
        points = {point["attributes"][1]["value"]["stringValue"]: point for point in hold["histogram"]["dataPoints"]}
        main = points["MainThread"]
        assert main["attributes"][0] == {"key": "cpython.gil", "value": {"intValue": "0"}}
        assert sum(map(int, main["bucketCounts"])) == int(main["count"])
        assert len(main["bucketCounts"]) == len(main["explicitBounds"]) + 1
        assert 0 < main["min"] <= main["max"]
        assert main["sum"] > 0
        counts.append((int(main["count"]), main["sum"]))
    assert counts[0] < counts[1]


STOPS_THE_WORLD = """
import gc, threading

def turns():
    while True:
        sum(range(100))

for _ in range(2):
    threading.Thread(target=turns, name="turns", daemon=True).start()
print("ready", flush=True)
while True:
    gc.collect()
"""


def test_stopped_worlds_are_counted(tmp_path):
    """A free-threaded process has a histogram of stop-the-world pauses, as its threads saw them."""
    (free,) = select(discover()[0], ["3.13t"])
    with collecting(tmp_path / "app.hwt", max_bytes=1 << 20) as door:
        command = [free.executable, "-c", STOPS_THE_WORLD]
        env = environment(door.environment())
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            try:
                assert child.stdout.readline() == "ready\n"
                roles = Roles()
                with Watch(child.pid) as one:

                    def counted():
                        snapshot = one.snapshot()
                        roles.add(snapshot.start_ns, (*snapshot.exited, *snapshot.threads))
                        return {each.role: each for each in series("world", roles.totals.items())}.get("turns")

                    found = wait_for(counted, "no thread was stopped")
            finally:
                child.kill()

    totals = roles.totals[0, "turns"]
    assert 0 < found.sum_s <= totals.ended_wait_ns / 1e9
    assert 0 < sum(found.buckets) <= sum(totals.wait_buckets)
