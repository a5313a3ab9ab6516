"""Middleware with a fake clock instead of the GIL's: the sums, and what passes through unchanged."""

import asyncio
import logging
from types import SimpleNamespace
from wsgiref.util import FileWrapper, setup_testing_defaults

import pytest

from headway.errors import RecordingError
from headway.live import middleware
from headway.live.middleware import GilASGIMiddleware, GilWSGIMiddleware
from headway.live.recording import GilTimes

MS = 1_000_000


@pytest.fixture
def gil(monkeypatch):
    """Return the thread's times, in milliseconds, which tests advance."""
    times = SimpleNamespace(held=0, waited=0)
    monkeypatch.setattr(middleware, "gil_times", lambda: GilTimes(times.held * MS, times.waited * MS))
    return times


def serve(application, **environ):
    """Serve one request with a WSGI application; return its headers and its body."""
    setup_testing_defaults(environ)
    started = []
    body = application(environ, lambda status, headers, *exc_info: started.append((status, headers, exc_info)))
    return started, body


def test_wsgi_tells_what_came_before_the_response(gil, caplog):
    """The header covers the time until the response begins, and the log all of it, with the iteration."""

    def application(environ, start_response):
        gil.waited, gil.held = 3, 5
        start_response("200 OK", [("X", "y")])

        def items():
            gil.waited = 20
            yield b"a"

        return items()

    ((_, headers, _),), body = serve(GilWSGIMiddleware(application, log_over_ms=10), PATH_INFO="/slow")
    assert list(body) == [b"a"]
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "headway.gil"):
        body.close()
        body.close()

    assert headers == [("X", "y"), ("Server-Timing", "gil-wait;dur=3.000, gil-hold;dur=5.000")]
    (record,) = caplog.records
    assert record.getMessage().startswith("GET /slow waited 20.0 ms for the GIL and held it 5.0 ms of ")


def test_a_request_that_fails_is_logged(gil, caplog):
    """An application that raises before it has a body is logged like one that raises in its body."""

    def application(environ, start_response):
        gil.waited, gil.held = 20, 5
        raise ZeroDivisionError

    with caplog.at_level(logging.WARNING, "headway.gil"), pytest.raises(ZeroDivisionError):
        serve(GilWSGIMiddleware(application, log_over_ms=10), PATH_INFO="/fails")

    (message,) = caplog.messages
    assert message.startswith("GET /fails waited 20.0 ms for the GIL and held it 5.0 ms of ")


def test_without_a_gil_the_log_names_locks(gil, caplog, monkeypatch):
    """The waits of a request in a free-threaded process are for locks, and the log does not call them otherwise."""

    def application(environ, start_response):
        gil.waited = 20
        return []

    monkeypatch.setattr(middleware, "gil_enabled", lambda: False)
    serve(GilWSGIMiddleware(application, log_over_ms=10), PATH_INFO="/slow")[1].close()

    (message,) = caplog.messages
    assert message.startswith("GET /slow waited 20.0 ms for locks, there is no GIL, of ")


@pytest.mark.parametrize("kind", ["WSGI", "ASGI"])
def test_a_path_forges_no_line_of_the_log(gil, caplog, kind):
    """A line end in a path is escaped: the log's lines are ours."""
    path = "/\nCRITICAL forged\x1b[2J"
    if kind == "WSGI":
        serve(GilWSGIMiddleware(lambda environ, start_response: [], log_over_ms=0), PATH_INFO=path)[1].close()
    else:

        async def app(*_):
            pass

        asyncio.run(GilASGIMiddleware(app, log_over_ms=0)({"type": "http", "method": "GET", "path": path}, None, None))

    (message,) = caplog.messages
    assert message.startswith("GET /\\x0aCRITICAL forged\\x1b[2J waited ")


def test_wsgi_logs_only_over_the_threshold(gil, caplog):
    """A request that waited for less than the threshold is not logged, and a list keeps its length and is closed."""

    def application(environ, start_response):
        gil.waited = 9
        start_response("200 OK", [])
        return [b"a"]

    started, body = serve(GilWSGIMiddleware(application, log_over_ms=10, header=False))
    assert (len(body), list(body)) == (1, [b"a"])
    body.close()

    assert started[0][1] == []
    assert not caplog.records


def test_wsgi_leaves_a_body_alone_that_it_need_not_watch(gil):
    """The application's own iterable is returned if there is no log, or if the server sends it by itself."""
    file = FileWrapper(None)
    body = [b"a"]

    assert serve(GilWSGIMiddleware(lambda environ, start_response: body))[1] is body
    sent = serve(
        GilWSGIMiddleware(lambda environ, start_response: file, log_over_ms=0), **{"wsgi.file_wrapper": FileWrapper}
    )[1]
    assert sent is file


def test_wsgi_passes_the_error_on(gil):
    """The application's exc_info reaches start_response."""
    error = (ValueError, ValueError("x"), None)

    def application(environ, start_response):
        start_response("500 Oh", [], error)
        return []

    started, _ = serve(GilWSGIMiddleware(application, header=False))

    assert started == [("500 Oh", [], (error,))]


def test_what_cannot_be_measured_is_served(monkeypatch, caplog):
    """Requests are served without a recorder as they would be, and the log says so once."""

    def cannot():
        raise RecordingError("this process cannot be recorded: x")

    monkeypatch.setattr(middleware, "gil_times", cannot)

    def application(environ, start_response):
        start_response("200 OK", [])
        return [b"a"]

    timed = GilWSGIMiddleware(application, log_over_ms=0)
    for _ in range(2):
        started, body = serve(timed)
        assert (started[0][1], body) == ([], [b"a"])

    assert [record.getMessage() for record in caplog.records] == [
        "requests are not timed: this process cannot be recorded: x"
    ]


async def request(app, *, kind="http", path="/"):
    """Serve one request with an ASGI application; return what it sent."""
    sent = []

    async def send(message):
        sent.append(message)

    await app({"type": kind, "method": "GET", "path": path}, None, send)
    return sent


START = {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]}


def test_asgi_counts_the_steps_of_its_own_task(gil):
    """The work of others while the task is suspended counts only in the time that the loop waited."""
    suspended, gate = asyncio.Event(), asyncio.Event()

    async def app(scope, receive, send):
        gil.waited += 2
        suspended.set()
        await gate.wait()
        gil.waited += 1
        await send(START)

    async def main():
        task = asyncio.create_task(request(GilASGIMiddleware(app)))
        await suspended.wait()
        gil.waited += 100
        gate.set()
        return await task

    (started,) = asyncio.run(main())

    assert started["headers"] == [
        (b"x", b"y"),
        (b"server-timing", b"gil-wait;dur=3.000, gil-hold;dur=0.000, gil-loop;dur=103.000"),
    ]
    assert START["headers"] == [(b"x", b"y")]


def test_asgi_logs_the_whole_request(gil, caplog):
    """The log covers what follows the response's beginning, and a request that failed."""

    async def app(scope, receive, send):
        await send(START)
        gil.waited += 30
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(request(GilASGIMiddleware(app, log_over_ms=30), path="/slow"))

    (record,) = caplog.records
    assert record.getMessage().startswith("GET /slow waited 30.0 ms for the GIL")


def test_asgi_passes_exceptions_in_and_out(gil):
    """Exceptions that are thrown into the task (cancellation, failed awaits) arrive in the application."""
    caught = []
    suspended = asyncio.Event()

    async def app(scope, receive, send):
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(ValueError("x"))
        try:
            await failed
        except ValueError:
            caught.append("error")
        suspended.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            caught.append("cancelled")
            raise

    async def main():
        task = asyncio.create_task(request(GilASGIMiddleware(app)))
        await suspended.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert caught == ["error", "cancelled"]


def test_asgi_measures_http_only(gil):
    """Lifespan and websockets get the server's own `send`."""
    seen = []

    async def app(scope, receive, send):
        seen.append(send)

    async def main():
        own = object()
        await GilASGIMiddleware(app)({"type": "websocket"}, None, own)
        await GilASGIMiddleware(app)({"type": "lifespan"}, None, own)
        return own

    own = asyncio.run(main())

    assert seen == [own, own]
