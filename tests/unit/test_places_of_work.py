"""The places where threads wait for work: pools, servers' threads between two requests of a queue, and windows' loops."""

import pytest

from headway.traces.frames import Frame
from headway.traces.loops import Home, home_at, is_for_a_request, is_in_a_loop, is_in_a_pool, work_in

SITE = "/v/lib/python3.13/site-packages"
LIB = "/usr/lib/python3.13"
HANDLER = Frame("/app/app.py", 12, "handler", 10)
FLASK = Frame(f"{SITE}/flask/app.py", 1511, "Flask.wsgi_app", 1480)


def stack(*places):
    """Return a stack of functions of installed packages, the innermost one first, from `file function`."""
    return tuple(
        Frame(
            f"{LIB if file in ('socket.py', '_pyio.py', 'queue.py', 'threading.py') else SITE}/{file}", 7, function, 5
        )
        for file, function in (place.split() for place in places)
    )


HANDLE = stack("gunicorn/workers/gthread.py ThreadWorker.handle", "concurrent/futures/thread.py _WorkItem.run")
PARSE = stack(
    "gunicorn/http/unreader.py SocketUnreader.chunk",
    "gunicorn/http/unreader.py Unreader.read",
    "gunicorn/http/message.py Request.get_data",
    "gunicorn/http/message.py Request.parse",
    "gunicorn/http/parser.py Parser.__next__",
)
BODY = stack("gunicorn/http/unreader.py SocketUnreader.chunk", "gunicorn/http/body.py Body.read")
PULL = stack(
    "waitress/trigger.py trigger._physical_pull",
    "waitress/trigger.py _triggerbase.pull_trigger",
    "waitress/server.py BaseWSGIServer.pull_trigger",
)
SERVICE = stack("waitress/channel.py HTTPChannel.service", "waitress/task.py ThreadedTaskDispatcher.handler_thread")
READ = stack(
    "socket.py SocketIO.readinto",
    "_pyio.py BufferedReader.peek",
    "_pyio.py IOBase.readline",
    "cheroot/server.py SizeCheckWrapper.readline",
    "cheroot/server.py HTTPRequest.read_request_line",
    "cheroot/server.py HTTPRequest.parse_request",
)
COMMUNICATE = stack("cheroot/server.py HTTPConnection.communicate")
CHEROOT = stack("cheroot/workers/threadpool.py WorkerThread._process_connections_until_interrupted")
GET = stack("threading.py Condition.wait", "queue.py Queue.get")
GEVENT = stack(
    "gevent/_threading.py acquire_with_timeout",
    "gevent/_threading.py _Condition.wait",
    "gevent/_threading.py Queue.get",
    "gevent/threadpool.py _WorkerGreenlet.run",
)


@pytest.mark.parametrize(
    ("frames", "is_home"),
    [
        (PARSE + HANDLE, True),
        (stack("gunicorn/workers/gthread.py TConn.wait_for_data") + HANDLE, True),
        ((*BODY, HANDLER, FLASK, *HANDLE), False),
        ((HANDLER, FLASK, *HANDLE), False),
        (HANDLE, False),
        (PULL + SERVICE, True),
        (PULL + stack("waitress/task.py Task.write", "waitress/task.py WSGITask.execute") + SERVICE, False),
        ((HANDLER, FLASK, *SERVICE), False),
        (READ + COMMUNICATE + CHEROOT, True),
        ((*READ[:1], HANDLER, *stack("cheroot/wsgi.py Gateway.respond"), *COMMUNICATE, *CHEROOT), False),
        (GET + CHEROOT, True),
        (GEVENT, True),
        ((HANDLER, *GEVENT[-1:]), False),
        ((*GET, HANDLER, *CHEROOT), False),
    ],
)
def test_a_thread_of_a_pool_is_between_two_pieces_of_work(frames, is_home):
    """A thread whose queue has further work does not wait for it: where it receives a request, the next one begins."""
    assert (home_at(frames) is Home.POOL) is is_home


@pytest.mark.parametrize(
    ("source", "is_home"),
    [
        ("from PySide6.QtWidgets import QApplication\nsys.exit(app.exec())\n", True),
        ("from PyQt5 import QtWidgets\nsys.exit(app.exec_())\n", True),
        ("from sqlmodel import Session\nfound = session.exec(statement).all()\n", False),
        ("from PySide6.QtCore import QTimer\nexec(code)\n", False),
    ],
)
def test_a_windows_loop_is_known_by_its_line(tmp_path, source, is_home):
    """Qt's loop is written in C++: the line that runs it is the place where the thread waits for the next event."""
    file = tmp_path / "app.py"
    file.write_text(source)

    assert (home_at((Frame(str(file), 2, "main", 1),)) is Home.LOOP) is is_home


def test_tks_loop_is_known_by_its_function():
    """Tk's loop is written in C, and called by tkinter."""
    assert home_at((Frame(f"{LIB}/tkinter/__init__.py", 1504, "Misc.mainloop", 1500),)) is Home.LOOP
    assert home_at((Frame(f"{LIB}/tkinter/__init__.py", 1967, "CallWrapper.__call__", 1960),)) is None


def test_a_forked_process_is_not_in_the_request_of_its_parent():
    """A process of multiprocessing that a request has forked has the request's frames below its own."""
    server = stack("waitress/task.py ThreadedTaskDispatcher.handler_thread", "threading.py Thread._bootstrap")
    forks = stack("multiprocessing/popen_fork.py Popen._launch", "multiprocessing/popen_fork.py Popen.__init__")
    child = (HANDLER, *stack("multiprocessing/process.py BaseProcess._bootstrap"))
    loop = stack("asyncio/base_events.py BaseEventLoop._run_once")

    assert is_in_a_pool((*forks, FLASK, *server))
    assert is_for_a_request((*forks, FLASK, *server), is_web=False)
    assert not is_in_a_pool((*child, *forks, FLASK, *server))
    assert not is_for_a_request((*child, *forks, FLASK, *server), is_web=False)
    assert is_in_a_loop((*forks, *loop))
    assert not is_in_a_loop((*child, *forks, *loop))


def test_a_windows_loop_that_is_served_in_the_midst_of_work(tmp_path):
    """`processEvents()` and `update()` let the loop serve what waits; the work that calls them is no part of the loop."""
    file = tmp_path / "app.py"
    file.write_text("for each in parts:\n    app.processEvents()\n    work(each)\n")
    serves, works = (Frame(str(file), line, "job", 1) for line in (2, 3))

    assert home_at((serves,)) is Home.LOOP
    assert home_at((works,)) is None
    assert work_in((serves,)) == [serves]
    assert home_at((Frame(f"{LIB}/tkinter/__init__.py", 1490, "Misc.update", 1488), works)) is Home.LOOP
    assert home_at((Frame(f"{LIB}/tkinter/__init__.py", 1494, "Misc.update_idletasks", 1492), works)) is None


@pytest.mark.parametrize(
    ("function", "is_inside"),
    [("crunch", False), ("App.render", False), ("fetch", True), ("on_timer", True), ("Loop.run_until_complete", True)],
)
def test_what_is_called_beside_a_loop_on_its_line_is_not_in_the_loop(tmp_path, function, is_inside):
    """A loop written in C calls a coroutine or a callback with no frame of its own between them and the line."""
    file = tmp_path / "batch.py"
    file.write_text(
        "async def fetch(): ...\n"
        "def crunch(): ...\n"
        "for _ in range(4): loop.run_until_complete(fetch()); crunch(); app.render()\n"
    )
    called, line = Frame(str(file), 2, function, 2), Frame(str(file), 3, "<module>", 1)

    assert is_in_a_loop((HANDLER, called, line)) is is_inside
    assert work_in((HANDLER, called, line)) == [HANDLER, called, *([] if is_inside else [line])]
    assert home_at((line,)) is Home.LOOP
