"""A server of `policy_corpus.py`, in the measured interpreter.

    policy_corpus_server_workload.py NAME PORT COMPUTING [--switch-interval S]

GET /item is answered with the same bytes each time. COMPUTING CPU-bound threads run in the process that answers. GET
/figures is answered with JSON: the work of these threads so far (`computed`), the CPU time of the process (`cpu_s`),
and the time of the answer (`at_s`).
"""

import asyncio
import json
import socket
import sys
import threading
import time

from policy_corpus_crew_workload import computing

THREADS = 4
COMPUTED = []


def compute(times):
    """Start CPU-bound threads."""
    for _ in range(times):
        COMPUTED.append([0])
        threading.Thread(target=computing, args=(COMPUTED[-1],), daemon=True).start()


def item():
    """Compute and return the JSON of an answer."""
    return json.dumps({"id": 17, "items": [{"name": f"item {i}", "price": i * 1.25} for i in range(20)]})


def figures():
    """Return the work of the CPU-bound threads, the CPU time and the time, as JSON."""
    return json.dumps({
        "computed": sum(one[0] for one in COMPUTED), "cpu_s": time.process_time(), "at_s": time.perf_counter()
    })  # fmt: skip


def flask_app():
    """Return the Flask application."""
    from flask import Flask, Response

    app = Flask(__name__)
    app.add_url_rule("/item", "item", lambda: Response(item(), mimetype="application/json"))
    app.add_url_rule("/figures", "figures", lambda: Response(figures(), mimetype="application/json"))
    return app


def django_app():
    """Return the Django application."""
    import django
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    common = ["django.middleware.common.CommonMiddleware"]
    settings.configure(
        ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="-", LOGGING_CONFIG=None, MIDDLEWARE=common
    )
    django.setup()
    globals()["urlpatterns"] = [
        path("item", lambda _: HttpResponse(item(), content_type="application/json")),
        path("figures", lambda _: HttpResponse(figures(), content_type="application/json")),
    ]
    return get_wsgi_application()


def waitress(app):
    """Return a waitress server of a WSGI application, with four threads."""

    def serve(port, computing):
        import waitress

        compute(computing)
        waitress.serve(app(), host="127.0.0.1", port=port, threads=THREADS)

    return serve


def gunicorn(port, computing):
    """Serve Flask by one gthread worker of gunicorn."""
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self):
            options = {"bind": f"127.0.0.1:{port}", "worker_class": "gthread", "workers": 1, "threads": THREADS}
            options |= {
                "keepalive": 60,
                "loglevel": "warning",
                "post_fork": lambda _server, _worker: compute(computing),
            }
            if "control_socket_disable" in self.cfg.settings:
                options["control_socket_disable"] = True  # it would be in the user's home
            for key, value in options.items():
                self.cfg.set(key, value)

        def load(self):
            return flask_app()

    Application().run()


def starlette(answer):
    """Return a uvicorn server that answers with the result of a coroutine."""

    def serve(port, computing):
        import uvicorn
        from starlette.applications import Starlette
        from starlette.responses import Response
        from starlette.routing import Route

        async def told(_):
            return Response(figures(), media_type="application/json")

        async def asked(_):
            return Response(await answer(), media_type="application/json")

        compute(computing)
        app = Starlette(routes=[Route("/item", asked), Route("/figures", told)])
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)

    return serve


async def at_once():
    """Answer in the event loop."""
    return item()


async def in_a_thread():
    """Answer in a thread."""
    return await asyncio.to_thread(item)


def tornado(port, computing):
    """Serve by tornado."""
    from tornado.web import Application, RequestHandler

    class Item(RequestHandler):
        def get(self):
            self.set_header("Content-Type", "application/json")
            self.write(item())

    class Figures(RequestHandler):
        def get(self):
            self.write(figures())

    async def main():
        Application([("/item", Item), ("/figures", Figures)]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    compute(computing)
    asyncio.run(main())


def aiohttp(port, computing):
    """Serve by aiohttp."""
    from aiohttp import web

    async def asked(_):
        return web.Response(text=item(), content_type="application/json")

    async def told(_):
        return web.Response(text=figures(), content_type="application/json")

    app = web.Application()
    app.add_routes([web.get("/item", asked), web.get("/figures", told)])
    compute(computing)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


def http_server(port, computing):
    """Serve by the standard library, with a thread for each connection."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = (
            True  # otherwise each answer waits 40 ms for an acknowledgement, which has nothing to do with the GIL
        )

        def do_GET(self):
            body = (figures() if self.path == "/figures" else item()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128

    compute(computing)
    Server(("127.0.0.1", port), Handler).serve_forever()


def echo(port, computing):
    """Answer with the same bytes, a thread for each connection: the classic convoy, two GIL round trips a request."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\necho"

    def serve(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while request := connection.recv(4096):
                if request.startswith(b"GET /figures"):
                    body = figures().encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                else:
                    connection.sendall(answer)

    compute(computing)
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


SERVERS = {
    "echo": echo,
    "waitress": waitress(flask_app),
    "django": waitress(django_app),
    "gunicorn": gunicorn,
    "uvicorn": starlette(at_once),
    "uvicorn-to-thread": starlette(in_a_thread),
    "tornado": tornado,
    "aiohttp": aiohttp,
    "http.server": http_server,
}


def main():
    """Run the server of the arguments."""
    if len(sys.argv) > 5:
        sys.setswitchinterval(float(sys.argv[5]))
    SERVERS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))


if __name__ == "__main__":
    main()
