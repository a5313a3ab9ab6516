"""Threads of servers without a pool: where they are between two requests, and where they answer one."""

import pytest

from headway.traces.frames import Frame
from headway.traces.loops import Home, home_at, is_for_a_request, is_in_a_pool

LIB, SITE = "/usr/lib/python3.13", "/v/lib/python3.13/site-packages"
GUNICORN, BASEHTTP = f"{SITE}/gunicorn/workers", f"{SITE}/django/core/servers/basehttp.py"
VIEW = Frame("/app/views.py", 12, "slow")
RUN = Frame(f"{GUNICORN}/sync.py", 84, "SyncWorker.run_for_one")
ACCEPT = Frame(f"{GUNICORN}/sync.py", 28, "SyncWorker.accept")
NOTIFY = (Frame(f"{GUNICORN}/workertmp.py", 44, "WorkerTmp.notify"), Frame(f"{GUNICORN}/base.py", 90, "Worker.notify"))
SOCKET = (Frame(f"{LIB}/socket.py", 719, "SocketIO.readinto"),)
HANDLE = Frame(BASEHTTP, 220, "WSGIRequestHandler.handle")
HANDLE_ONE = Frame(BASEHTTP, 230, "WSGIRequestHandler.handle_one_request")
THREAD = (Frame(f"{LIB}/socketserver.py", 692, "ThreadingMixIn.process_request_thread"),)


@pytest.mark.parametrize(
    "stack",
    [(*NOTIFY, RUN), (*SOCKET, HANDLE_ONE, HANDLE, *THREAD)],
    ids=["gunicorn's sync worker says that it lives", "Django's server waits for a request"],
)
def test_a_server_is_between_two_requests(stack):
    """The thread has no work there: a request has ended, and the next one has not come."""
    assert home_at(stack) is Home.POOL


@pytest.mark.parametrize(
    "stack",
    [(VIEW, ACCEPT, RUN), (VIEW, HANDLE_ONE, HANDLE, *THREAD), (*SOCKET, VIEW, HANDLE_ONE, HANDLE, *THREAD)],
    ids=["gunicorn's sync worker", "Django's server", "a view that calls another service"],
)
def test_a_server_answers_a_request(stack):
    """The thread's time is a request's there."""
    assert home_at(stack) is None
    assert is_in_a_pool(stack)
    assert is_for_a_request(stack, is_web=False)


def test_a_programs_own_base_module_is_no_place_between_requests():
    """Only the worker's own function counts, and not each function of a file of that name."""
    assert home_at((Frame("/app/base.py", 3, "View.get"), HANDLE_ONE, HANDLE, *THREAD)) is None
