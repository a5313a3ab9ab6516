"""Serves a watcher's metrics, its log of stalls, and recordings on demand by HTTP.

    GET /metrics    for Prometheus: stalls by cause, event loops' delay, waits for the GIL and holds of it
    GET /stalls     the log so far, a JSON object a line
    GET /dashboard  a dashboard of these metrics, for Grafana to import
    GET /dump       requests a recording of each process

All answers come from the watcher's own memory: a scrape takes no GIL of the watched processes.
"""

import errno
import http.server
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from headway.live.exposition import exposition
from headway.live.options import family_of

if TYPE_CHECKING:
    from headway.live.watcher import Watcher

__all__ = ["serve"]

_MOST_LOG_BYTES: Final = 8 << 20
_PATIENCE_S: Final = 30
"""How long a client may take to send its request, and to take the answer."""
_AGAIN_S: Final = 0.5
"""The time between two attempts at an address that another process serves."""


def _log(path: Path) -> bytes:
    """Return the end of a log, from the beginning of a line on."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_LOG_BYTES))
            text = file.read()
    except OSError:
        return b""
    return text if len(text) < _MOST_LOG_BYTES else text.partition(b"\n")[2]


def serve(watcher: "Watcher", address: str) -> None:
    """Serve in a separate thread for the rest of the process's life; if another process serves the address, after it.

    The workers of a server have the same settings, each has a watcher, and only one of these can have the address.

    Raises:
        OSError: The address cannot be served, and no other process is the reason.
    """

    @final
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            """Answer a request."""
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._give("text/plain; version=0.0.4", ("\n".join(exposition(watcher.totals())) + "\n").encode())
            elif path == "/stalls":
                self._give("application/x-ndjson", _log(watcher.log))
            elif path == "/dashboard":
                self._give("application/json", Path(__file__).with_name("grafana.json").read_bytes())
            elif path == "/dump":
                watcher.ask()
                if watcher.watches:
                    self._give("text/plain", b"a recording of each process is being written\n")
                else:
                    self._give("text/plain", b"no process is watched, so no recording is written\n", 503)
            else:
                self._give("text/plain", b"there are /metrics, /stalls, /dashboard and /dump\n", 404)

        def _give(self, kind: str, body: bytes, code: int = 200) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing: stderr is the service's."""

    host, _, port = address.rpartition(":")

    @final
    class Server(socketserver.ThreadingTCPServer):
        # An HTTPServer asks the resolver for our name, which may take longer than we may take to start.
        address_family = family_of(host)
        allow_reuse_address = True
        daemon_threads = True

        def handle_error(self, *request: Any) -> None:
            """Print nothing about a client that has hung up: stderr is the service's."""
            if not isinstance(sys.exc_info()[1], OSError):
                super().handle_error(*request)

    def opened() -> Server | None:
        try:
            return Server((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return None

    server = opened()
    if server is None:
        watcher.say(f"{address} is not served for process {watcher.pid} as long as another process has that address")

    def work() -> None:
        has_it = server
        while has_it is None:
            time.sleep(_AGAIN_S)
            has_it = opened()
        has_it.serve_forever()

    threading.Thread(target=work, daemon=True).start()
