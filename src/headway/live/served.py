"""What a watcher serves by HTTP, on this machine: its metrics, what stood still, and a recording at any time.

    GET /metrics    for Prometheus: stalls by cause, and how long event loops took from one look at their connections to the next
    GET /stalls     the log so far, a JSON object a line
    GET /dump       has a recording of each process written

All of it comes from the watcher's own memory: no GIL of the watched processes is taken for a scrape.
"""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from headway.live.watcher import Watcher

__all__ = ["serve"]

_BOUNDS: Final = range(20, 36, 1)
"""Of the histogram, as powers of two in nanoseconds: 1 ms to 34 s."""
_MOST_LOG_BYTES: Final = 8 << 20


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def metrics(watcher: "Watcher") -> Iterator[str]:
    """Yield the lines of Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats)."""
    yield "# HELP headway_stalls_total What stood still for too long, by what it was and why."
    yield "# TYPE headway_stalls_total counter"
    counts = sorted(watcher.counts.items())
    for (kind, cause), (count, _) in counts:
        yield f'headway_stalls_total{{kind="{_escaped(kind)}",cause="{_escaped(cause)}"}} {count}'
    yield "# HELP headway_stalls_seconds_total For how long."
    yield "# TYPE headway_stalls_seconds_total counter"
    for (kind, cause), (_, sum_s) in counts:
        yield f'headway_stalls_seconds_total{{kind="{_escaped(kind)}",cause="{_escaped(cause)}"}} {sum_s!r}'
    yield "# HELP asyncio_eventloop_delay_seconds How long event loops took from one look at their connections to the next."
    yield "# TYPE asyncio_eventloop_delay_seconds histogram"
    for ring in watcher.rings:
        laps = ring.laps
        for power in _BOUNDS:
            below = sum(laps.lengths[: power + 1])
            yield f'asyncio_eventloop_delay_seconds_bucket{{pid="{ring.pid}",le="{2**power / 1e9!r}"}} {below}'
        yield f'asyncio_eventloop_delay_seconds_bucket{{pid="{ring.pid}",le="+Inf"}} {sum(laps.lengths)}'
        yield f'asyncio_eventloop_delay_seconds_sum{{pid="{ring.pid}"}} {laps.lengths_ns / 1e9!r}'
        yield f'asyncio_eventloop_delay_seconds_count{{pid="{ring.pid}"}} {sum(laps.lengths)}'


def _log(path: Path) -> bytes:
    """Return the end of a log, from a line's beginning on."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_LOG_BYTES))
            text = file.read()
    except OSError:
        return b""
    return text if len(text) < _MOST_LOG_BYTES else text.partition(b"\n")[2]


def serve(watcher: "Watcher", address: str) -> None:
    """Serve in a thread of its own, as long as the process lives. Raises OSError."""

    @final
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer."""
            if self.path == "/metrics":
                self._give("text/plain; version=0.0.4", ("\n".join(metrics(watcher)) + "\n").encode())
            elif self.path == "/stalls":
                self._give("application/x-ndjson", _log(watcher.log))
            elif self.path == "/dump":
                watcher.ask()
                self._give("text/plain", b"a recording of each process is being written\n")
            else:
                self._give("text/plain", b"there are /metrics, /stalls and /dump\n", 404)

        def _give(self, kind: str, body: bytes, code: int = 200) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: stderr is the service's."""

    host, _, port = address.rpartition(":")
    server = http.server.ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
