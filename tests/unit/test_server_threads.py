"""Threads of servers without a pool: where they are between two requests, and where they answer one."""

import pytest
from made_traces import MS
from test_stalls import AT_ANSWER, AT_CLOSE, AT_SELECT, AT_START, with_stacks
from told_traces import Script

from headway.traces.analysis.stall_model import StallKind, Thresholds
from headway.traces.analysis.stalls import find_stalls
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

STARTS = tuple(
    Frame(f"{LIB}/threading.py", line, name)
    for line, name in ((359, "Condition.wait"), (659, "Event.wait"), (971, "Thread.start"))
)
HANDS_OVER = Frame(f"{LIB}/socketserver.py", 706, "ThreadingMixIn.process_request")
FORKS = Frame(f"{LIB}/socketserver.py", 612, "ForkingMixIn.process_request")
FINISH = Frame(f"{LIB}/socketserver.py", 362, "BaseServer.finish_request")
ACCEPTS = (
    Frame(f"{LIB}/socketserver.py", 318, "BaseServer._handle_request_noblock"),
    Frame(f"{LIB}/socketserver.py", 240, "BaseServer.serve_forever"),
)


@pytest.mark.parametrize(
    "stack",
    [
        (*NOTIFY, RUN),
        (*SOCKET, HANDLE_ONE, HANDLE, *THREAD),
        (*STARTS, HANDS_OVER, *ACCEPTS),
        (STARTS[-1], HANDS_OVER, *ACCEPTS),
        (FORKS, *ACCEPTS),
    ],
    ids=[
        "gunicorn's sync worker says that it lives",
        "Django's server waits for a request",
        "a server with threads waits for a thread to start",
        "a server with threads starts one",
        "a server with processes starts one",
    ],
)
def test_a_server_is_between_two_requests(stack):
    """The thread has no work there: a request has ended, and the next one has not come."""
    assert home_at(stack) is Home.POOL


@pytest.mark.parametrize(
    "stack",
    [
        (VIEW, ACCEPT, RUN),
        (VIEW, HANDLE_ONE, HANDLE, *THREAD),
        (*SOCKET, VIEW, HANDLE_ONE, HANDLE, *THREAD),
        (VIEW, FINISH, FORKS, *ACCEPTS),
        (*STARTS, VIEW, FINISH, *ACCEPTS),
    ],
    ids=[
        "gunicorn's sync worker",
        "Django's server",
        "a view that calls another service",
        "a process for a request",
        "a server without threads, whose view starts one",
    ],
)
def test_a_server_answers_a_request(stack):
    """The thread's time is a request's there."""
    assert home_at(stack) is None
    assert is_in_a_pool(stack)
    assert is_for_a_request(stack, is_web=False)


def test_a_programs_own_base_module_is_no_place_between_requests():
    """Only the worker's own function counts, and not each function of a file of that name."""
    assert home_at((Frame("/app/base.py", 3, "View.get"), HANDLE_ONE, HANDLE, *THREAD)) is None


def test_a_request_that_has_a_thread_is_not_one_of_the_servers_thread_too():
    """The server's thread waits for the GIL that the request's thread keeps as it starts: that is a wait, and no request."""
    script = Script().hold(0, 0, 1, stack=AT_SELECT).hold(0, 10, 11, stack=AT_START)
    script.hold(1, 11, 411, stack=AT_ANSWER, forced=True).hold(1, 412, 413, stack=AT_CLOSE)
    script.wait(0, 12, stack=AT_START, asks_ms=17).hold(0, 411, 412, stack=AT_START, forced=True)
    script.hold(0, 413, 414, stack=AT_SELECT)
    trace = with_stacks(script.trace(500, "MainThread", "Thread-1 (process_request_thread)"))
    found = find_stalls(trace, Thresholds(100 * MS, 100 * MS, 100 * MS))

    assert {(one.thread, one.kind) for one in found} == {
        (0, StallKind.WAIT),
        (1, StallKind.REQUEST),
    }
