"""One line for a service, which is watched from then on: gunicorn, any WSGI or ASGI application, Celery, Ray.

    # gunicorn.conf.py
    from headway.live.services import post_fork

    application = watched_wsgi(application)         # Flask, Django
    app = watched_asgi(app)                         # FastAPI, Starlette, under uvicorn
    watch_celery()                                  # in the module of the Celery application
    ray.init(runtime_env={"worker_process_setup_hook": watch_worker})

Where the process cannot be watched, as without the native library, each of them says so once on stderr, and the service runs.
Where recordings go says $HEADWAY_WATCH; else it is the folder `stalls`.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from headway.errors import HeadwayError

__all__ = ["post_fork", "watch_celery", "watch_worker", "watched_asgi", "watched_wsgi"]

_said = False


def watch_worker(**options: Any) -> bool:
    """Have this process watched; return whether it is.

    Args:
        options: Those of `headway.watch`.
    """
    global _said  # noqa: PLW0603 once in each process
    try:
        from headway.live.watching import watch

        watch(**options)
    except (HeadwayError, OSError) as error:
        if not _said and sys.stderr is not None:
            sys.stderr.write(f"headway: process {os.getpid()} is not watched: {error}\n")
        _said = True
        return False
    return True


def post_fork(_server: object, _worker: object) -> None:
    """Watch a worker of gunicorn's: a server hook of this name in its configuration."""
    watch_worker(name="gunicorn")


def watched_wsgi(
    application: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]], **options: Any
) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Return the application, in a process that is watched from its first request on.

    Not from the import on: a server may import it, and fork its workers later.
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
    """Return the application, in a process that is watched from its start (lifespan) or first request on."""
    seen: set[int] = set()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if os.getpid() not in seen:
            seen.add(os.getpid())
            watch_worker(**options)
        await application(scope, receive, send)

    return answer


def watch_celery(**options: Any) -> None:
    """Watch each of Celery's worker processes: of the prefork pool, and of threads."""
    from celery import signals  # type: ignore[import-not-found,import-untyped,unused-ignore]

    def begin(**_: object) -> None:
        watch_worker(**{"name": "celery", **options})

    signals.worker_process_init.connect(begin, weak=False)
    signals.worker_init.connect(begin, weak=False)
