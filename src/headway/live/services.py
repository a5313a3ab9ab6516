"""Watches a service with one line of code: gunicorn, any WSGI or ASGI application, Celery, Ray.

    # gunicorn.conf.py
    from headway.live.services import post_worker_init

    application = watched_wsgi(application)         # Flask, Django
    app = watched_asgi(app)                         # FastAPI, Starlette, under uvicorn
    watch_celery()                                  # in the module of the Celery application
    ray.init(runtime_env={"worker_process_setup_hook": watch_worker})

If the process cannot be watched, for lack of the native library say, each function reports that once on stderr, and the
service runs. $HEADWAY_WATCH names the folder for recordings; by default it is the folder `stalls`.
"""

import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from headway.live.preset import reason_of, say_unwatched
from headway.live.watching import watch

__all__ = ["post_fork", "post_worker_init", "watch_celery", "watch_worker", "watched_asgi", "watched_wsgi"]


def watch_worker(**options: Any) -> bool:
    """Watch this process; return whether that succeeded.

    Args:
        options: The options of `headway.watch`.
    """
    try:
        watch(**options | {"required": True})
    except Exception as error:  # noqa: BLE001 the service runs, whatever goes wrong
        say_unwatched(reason_of(error))
        return False
    return True


def post_worker_init(_worker: object) -> None:
    """Watch a worker of gunicorn: the server hook of this name in gunicorn's configuration."""
    watch_worker(name="gunicorn")


@contextlib.contextmanager
def _ends_by_signals() -> Iterator[None]:
    """End the process after the `with` if one of the signals that end a worker came meanwhile.

    A worker that was just forked has the handlers of gunicorn's master, which would put the signal into a queue that
    nobody reads.
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    try:
        for one in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
            if signal.getsignal(one) is not None:  # None: a handler in C, which could not be restored
                before[one] = signal.signal(one, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise SystemExit(0)


def post_fork(_server: object, worker: object) -> None:
    """Watch a worker of gunicorn from its fork on, before it imports the application; prefer `post_worker_init`.

    At that time the worker still has the rights of gunicorn's master, which the watcher would keep.
    """
    settings = getattr(worker, "cfg", None)
    uid, gid = getattr(settings, "uid", os.geteuid()), getattr(settings, "gid", os.getegid())
    if (uid, gid) == (os.geteuid(), os.getegid()):
        with _ends_by_signals():
            watch_worker(name="gunicorn")
    else:
        say_unwatched(
            "the worker gives up its user's or group's rights later: import post_worker_init instead of post_fork"
        )


def watched_wsgi(
    application: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]], **options: Any
) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Return an application whose process is watched from its first request on.

    The watch does not start at the import, because a server may import the application before it forks its workers.
    """
    seen: set[int] = set()

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if os.getpid() not in seen:
            seen.add(os.getpid())
            watch_worker(**options)
        return application(environ, start_response)

    return answer


def watched_asgi(
    application: Callable[[Any, Any, Any], Awaitable[None]], **options: Any
) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """Return an application whose process is watched from its start (lifespan) or first request on."""
    seen: set[int] = set()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if os.getpid() not in seen:
            seen.add(os.getpid())
            watch_worker(**options)
        await application(scope, receive, send)

    return answer


def watch_celery(**options: Any) -> None:
    """Watch each worker process of Celery, of the prefork pool and of the thread pool."""
    from celery import signals  # type: ignore[import-not-found,import-untyped,unused-ignore]

    def begin(**_: object) -> None:
        watch_worker(**{"name": "celery", **options})

    signals.worker_process_init.connect(begin, weak=False)
    signals.worker_init.connect(begin, weak=False)
