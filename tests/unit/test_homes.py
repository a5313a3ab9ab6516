"""The stacks at which an event loop or a pool's thread waits."""

import pytest

from headway.live.homes import Homes
from headway.native import HOME_LOOP, HOME_NONE, HOME_OUTSIDE, HOME_REQUEST
from headway.traces.frames import Frame
from headway.traces.loops import Home, home_at

POLL = (
    Frame("/usr/lib/python3.13/selectors.py", 452, "EpollSelector.select", 440),
    Frame("/usr/lib/python3.13/asyncio/base_events.py", 1989, "BaseEventLoop._run_once", 1960),
)
COMPUTE = Frame("/app/app.py", 12, "compute", 10)
MAIN = Frame("/app/app.py", 90, "<module>", 1)
ELSEWHERE = (COMPUTE, MAIN)
BEGIN = Frame("/usr/lib/python3.13/threading.py", 1032, "Thread._bootstrap", 1030)


class Told:
    """A fake collection that gives new stacks, and the stacks of its file."""

    def __init__(self):
        self.fresh_ones = []
        self.in_the_file = {}
        self.read = {}
        self.settled = []
        self.partly_known = set()

    def fresh(self):
        found, self.fresh_ones = self.fresh_ones, []
        return found

    def settle(self, stack, home):
        self.settled.append((stack, home))

    def update(self):
        self.read = dict(self.in_the_file)

    def is_whole(self, number):
        return number not in self.partly_known

    def frames(self, number, most):
        return self.read.get(number, ())[:most]


def test_a_stack_whose_frames_come_later_is_settled_then():
    """A stack whose frames come later is settled then.

    An event may be copied a pass before its stack's frames. If the stack were settled as no home, its loop would never
    be seen.
    """
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1, 2]
    told.in_the_file = {2: ELSEWHERE}
    homes.settle()
    assert told.settled == [(2, HOME_OUTSIDE)]

    told.in_the_file[1] = POLL
    homes.settle()
    homes.settle()
    assert told.settled == [(2, HOME_OUTSIDE), (1, HOME_LOOP)]


def test_stacks_outside_of_any_loop():
    """A stack without a loop's frame is outside of any loop; one that is cut may be inside, and so may a target in C."""
    thread = Frame("/usr/lib/python3.13/threading.py", 1012, "Thread.run", 1000)
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1, 2, 3]
    told.in_the_file = {1: (COMPUTE, *POLL[1:]), 2: (COMPUTE, thread, BEGIN), 3: (COMPUTE,) * 128}
    homes.settle()
    assert told.settled == [(1, HOME_NONE), (2, HOME_OUTSIDE), (3, HOME_NONE)]

    told.fresh_ones = [4, 5, 6]
    told.in_the_file |= {4: ELSEWHERE, 5: (thread,), 6: (COMPUTE, thread, BEGIN)}
    told.partly_known = {4}
    homes.settle()
    assert told.settled[3:] == [(4, HOME_NONE), (5, HOME_LOOP), (6, HOME_NONE)]


def test_the_poll_of_a_loop_deep_within_another_one_is_no_home():
    """The frame of the outer loop may be far out: the watcher looks at the whole stack."""
    trio = Frame("/v/site-packages/trio/_core/_run.py", 2700, "unrolled_run")
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1]
    told.in_the_file = {1: (*POLL, *ELSEWHERE * 10, trio)}
    homes.settle()
    assert told.settled == [(1, HOME_NONE)]


def test_stacks_in_a_request():
    """A stack of a pool's thread is in a request if a server's frame is on it, and otherwise in a job."""
    worker = Frame("/usr/lib/python3.13/concurrent/futures/thread.py", 59, "_WorkItem.run", 50)
    pool = Frame("/usr/lib/python3.13/concurrent/futures/thread.py", 93, "_worker", 70)
    server = Frame("/v/site-packages/gunicorn/workers/gthread.py", 300, "ThreadWorker.handle", 290)
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1, 2]
    told.in_the_file = {1: (COMPUTE, server, worker, pool, BEGIN), 2: (COMPUTE, worker, pool, BEGIN)}
    homes.settle()
    assert told.settled == [(1, HOME_REQUEST), (2, HOME_OUTSIDE)]


ANYIO = Frame("/v/site-packages/anyio/_backends/_asyncio.py", 967, "WorkerThread.run", 950)
ASGIREF = Frame("/v/site-packages/asgiref/sync.py", 560, "SyncToAsync.thread_handler", 530)
EXECUTOR = Frame("/v/lib/python3.13/concurrent/futures/thread.py", 89, "_worker", 70)


@pytest.mark.parametrize("runs", [(ANYIO,), (ASGIREF, EXECUTOR)], ids=["anyio", "asgiref"])
def test_stacks_of_functions_without_async(runs):
    """A thread's stack is in a request once a stack has shown a server whose requests are in an event loop."""
    server = Frame("/v/site-packages/uvicorn/server.py", 70, "Server.serve", 68)
    imported = Frame("/v/site-packages/uvicorn/server.py", 1, "<module>", 1)
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1, 2, 3, 4, 5]
    told.in_the_file = {
        1: (COMPUTE, imported),
        2: (COMPUTE, *runs, BEGIN),
        3: (*POLL, *ELSEWHERE, *ELSEWHERE, server),
        4: (COMPUTE, COMPUTE, *runs, BEGIN),
        5: (COMPUTE, EXECUTOR, BEGIN),
    }
    homes.settle()
    assert told.settled[:3] == [(1, HOME_OUTSIDE), (2, HOME_OUTSIDE), (3, HOME_LOOP)]
    assert told.settled[3:] == [(4, HOME_REQUEST), (5, HOME_OUTSIDE)]


def test_stacks_that_never_come_are_bounded():
    """Most of a hostile process's thousands of stacks without frames are settled as no home."""
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = list(range(1, 3001))
    homes.settle()

    assert len(told.settled) == 3000 - 1024
    assert {home for _, home in told.settled} == {HOME_NONE}


def test_a_library_runs_a_loop_in_c_where_its_line_does(tmp_path):
    """A server's own runner of uvloop is the innermost frame while the loop polls; a module that runs no loop is none."""
    folder = tmp_path / "lib/python3.13/site-packages/server"
    folder.mkdir(parents=True)
    (folder / "runners.py").write_text("def serve(loop):\n    loop.run_forever()\n    loop.close()\n")
    (folder / "other.py").write_text("def serve(work):\n    work()\n")

    def home(name, line):
        return home_at([Frame(str(folder / name), line, "serve", 1)])

    assert [home("runners.py", 2), home("runners.py", 3), home("other.py", 2)] == [Home.LOOP, None, None]


def test_a_thread_of_anyio_without_a_frame_of_its_queue_works():
    """A function written in C has no frame, and AnyIO's own wait for work has frames of its queue."""
    run = Frame("/v/site-packages/anyio/_backends/_asyncio.py", 967, "WorkerThread.run", 950)
    get = Frame("/v/lib/python3.13/queue.py", 210, "Queue.get", 200)

    assert home_at([get, run]) is Home.POOL
    assert home_at([run]) is None


@pytest.mark.parametrize(
    ("line", "between", "home"),
    [
        ("event_list = self._selector.select(timeout)", 1, Home.LOOP),
        ("event_list = self._selector.select(timeout)", 4, Home.LOOP),
        ("event_list = self._selector.select(timeout)", 5, None),  # too far for a poll
        ("handle._run()", 1, None),  # a callback that waits for a process
        ("handle._run()", 0, Home.LOOP),  # a line of another version's source
    ],
)
def test_a_poll_through_a_selector_of_the_program(tmp_path, line, between, home):
    """The poll of a loop may be called through a program's own selector, and a callback's wait is no poll."""
    source = tmp_path / "base_events.py"
    source.write_text(f"class BaseEventLoop:\n    def _run_once(self):\n        {line}\n")
    own = (Frame("/app/timed.py", 8, "TimedSelector.select", 6),) * between

    assert home_at((POLL[0], *own, Frame(str(source), 3, "BaseEventLoop._run_once", 2), MAIN)) is home
