"""A server that answers `GET /?period=0.04` after so many seconds, in a process of its own."""

import subprocess
import sys

import pytest

SERVER = """
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Sleeper(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(float(self.path.partition("period=")[2]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Sleeper)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="session")
def server_url():
    """The address of a server of our own."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
        server.kill()
