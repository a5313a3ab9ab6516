"""WSGI and ASGI middleware that measures how long a request waited for the GIL.

    application = GilWSGIMiddleware(application)
    app = GilASGIMiddleware(app, log_over_ms=20)

Each response gets a header that browsers show among a request's timings:

    Server-Timing: gil-wait;dur=3.214, gil-hold;dur=11.08

A header leaves before the request is over, so the header's figures cover the time until the response began. The log
covers the whole request: a request that waited for at least `log_over_ms` is logged as a warning of the logger
`headway.gil`.

**WSGI.** The figures are those of the thread, which has one request at a time. Under gevent or eventlet a thread has
many requests at a time, and the figures are those of all of them. An iterable that the server sends by itself
(`wsgi.file_wrapper`) is not measured.

**ASGI.** Many requests share one thread, so each step of the request's own task is measured separately: the time of
other requests in between does not count. The figures leave out:

- The event loop's waits for the GIL when it comes back from polling, before any task runs. `gil-loop` has all waits of
  the loop's thread during the request, for this and all other requests together.
- Tasks that the request starts (a TaskGroup, or Starlette's BaseHTTPMiddleware if it is further inside).
- Threads (`run_in_executor`, synchronous endpoints).

Only HTTP requests are measured. Without a GIL, waits are those for locks of objects and of the interpreter, under the
same names, and there are no holds.

If the interpreter cannot be recorded, requests are served as without the middleware; the log says so once.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from headway.agent.headway_agent.library import gil_enabled
from headway.errors import HeadwayError
from headway.live.recording import GilTimes, gil_times
from headway.printable import printable

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

__all__ = ["GilASGIMiddleware", "GilWSGIMiddleware"]

_LOG = logging.getLogger("headway.gil")

_Scope = MutableMapping[str, Any]
_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_ASGIApplication = Callable[[_Scope, _Receive, _Send], Awaitable[None]]
_ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class _Meter:
    """Adds up the holds and waits of one thread between `begin` and `end`."""

    def __init__(self) -> None:
        self.held_ns = 0
        self.waited_ns = 0
        self._since: GilTimes | None = None
        self._thread = 0

    def begin(self) -> None:
        """Start a span. Raises HeadwayError if the thread cannot be measured."""
        self._since = gil_times()
        self._thread = threading.get_ident()

    def end(self) -> None:
        """End the present span, if there is one."""
        self.held_ns, self.waited_ns = self.so_far()
        self._since = None

    def so_far(self) -> GilTimes:
        """Return the times up to now; without the present span if another thread calls."""
        held_ns, waited_ns = self.held_ns, self.waited_ns
        if self._since is not None and self._thread == threading.get_ident():
            with contextlib.suppress(HeadwayError):
                now = gil_times()
                # A recording that was restarted meanwhile counts from 0.
                held_ns += max(0, now.held_ns - self._since.held_ns)
                waited_ns += max(0, now.waited_ns - self._since.waited_ns)
        return GilTimes(held_ns, waited_ns)


class _Middleware:
    """The common part of both kinds of middleware."""

    def __init__(self, header: bool, log_over_ms: float | None) -> None:  # noqa: FBT001 private
        self._header = header
        self._log_over_ns = None if log_over_ms is None else log_over_ms * 1e6
        self._cannot = False

    def _begin(self) -> _Meter | None:
        """Return a running meter; None if the interpreter cannot be recorded."""
        if self._cannot:
            return None
        meter = _Meter()
        try:
            meter.begin()
        except HeadwayError as error:
            self._cannot = True
            _LOG.warning("requests are not timed: %s", error.message)
            return None
        return meter

    def _log(self, what: str, meter: _Meter, started_ns: int) -> None:
        if self._log_over_ns is None or meter.waited_ns < self._log_over_ns:
            return
        what = printable(what)  # a path may hold a line end, and a forged line behind it
        waited_ms, all_ms = meter.waited_ns / 1e6, (time.perf_counter_ns() - started_ns) / 1e6
        if gil_enabled():
            held_ms = meter.held_ns / 1e6
            _LOG.warning(
                "%s waited %.1f ms for the GIL and held it %.1f ms of %.1f ms", what, waited_ms, held_ms, all_ms
            )
        else:
            _LOG.warning("%s waited %.1f ms for locks, there is no GIL, of %.1f ms", what, waited_ms, all_ms)


def _timing(times: GilTimes) -> str:
    return f"gil-wait;dur={times.waited_ns / 1e6:.3f}, gil-hold;dur={times.held_ns / 1e6:.3f}"


class GilWSGIMiddleware(_Middleware):
    """Measures the requests of a WSGI application."""

    def __init__(
        self, application: "WSGIApplication", *, header: bool = True, log_over_ms: float | None = None
    ) -> None:
        """Wrap an application.

        Args:
            application: The application.
            header: Add Server-Timing to responses. Every client can read it.
            log_over_ms: Log requests that waited at least so long for the GIL; None: log nothing.
        """
        super().__init__(header, log_over_ms)
        self._application = application

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Serve one request."""
        started_ns = time.perf_counter_ns()
        meter = self._begin()
        if meter is None:
            return self._application(environ, start_response)

        def timed(
            status: str, headers: list[tuple[str, str]], exc_info: _ExcInfo | None = None, /
        ) -> Callable[[bytes], object]:
            if self._header:
                headers = [*headers, ("Server-Timing", _timing(meter.so_far()))]
            return start_response(status, headers) if exc_info is None else start_response(status, headers, exc_info)

        def finish() -> None:
            meter.end()
            path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
            self._log(f"{environ.get('REQUEST_METHOD', '?')} {path}", meter, started_ns)

        try:
            body = self._application(environ, timed)
        except BaseException:
            finish()  # there is no body whose end would be the request's
            raise
        wrapper = environ.get("wsgi.file_wrapper")
        if self._log_over_ns is None or (isinstance(wrapper, type) and isinstance(body, wrapper)):
            return body
        return _SizedBody(body, finish) if hasattr(body, "__len__") else _Body(body, finish)


class _Body:
    """A response body that calls a function after it is closed."""

    def __init__(self, body: Iterable[bytes], finish: Callable[[], None]) -> None:
        self._body = body
        self._finish: Callable[[], None] | None = finish

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()


class _SizedBody(_Body):
    """A response body with a length: servers derive a Content-Length from a list with a single item."""

    def __len__(self) -> int:
        return len(self._body)  # type: ignore[arg-type]


class GilASGIMiddleware(_Middleware):
    """Measures the HTTP requests of an ASGI application, each by its own task."""

    def __init__(self, app: _ASGIApplication, *, header: bool = True, log_over_ms: float | None = None) -> None:
        """Wrap an application; the further inside this middleware is, the more of the request runs in its task.

        Args:
            app: The application.
            header: Add Server-Timing to responses. Every client can read it.
            log_over_ms: Log requests that waited at least so long for the GIL; None: log nothing.
        """
        super().__init__(header, log_over_ms)
        self._app = app

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Serve one request; pass on anything else than HTTP unchanged."""
        loop = self._begin() if scope["type"] == "http" else None
        if loop is None:
            await self._app(scope, receive, send)
            return
        started_ns = time.perf_counter_ns()
        meter = _Meter()

        async def timed(message: _Message) -> None:
            if message["type"] == "http.response.start":
                text = f"{_timing(meter.so_far())}, gil-loop;dur={loop.so_far().waited_ns / 1e6:.3f}"
                headers = [*message.get("headers", ()), (b"server-timing", text.encode("ascii"))]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await _Steps(self._app(scope, receive, timed if self._header else send), meter)
        finally:
            self._log(f"{scope.get('method', '?')} {scope.get('path', '')}", meter, started_ns)


class _Steps:
    """Awaits an object and measures each step: from when the event loop resumes it until it is suspended."""

    def __init__(self, awaited: Awaitable[None], meter: _Meter) -> None:
        self._awaited = awaited
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._awaited.__await__()
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            with contextlib.suppress(HeadwayError):
                self._meter.begin()
            try:
                waits_for = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration:
                return
            finally:
                self._meter.end()
                sent = thrown = None  # avoids a reference cycle of this frame and an exception's traceback
            try:
                sent = yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 passed on to the awaited object
                thrown = error
