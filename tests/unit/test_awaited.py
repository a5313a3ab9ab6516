"""The things that a thread waits for and another one gives: what a stack tells of them, and the advice on each."""

import inspect
import queue
import threading
from concurrent import futures

import pytest

from headway.traces.analysis.doing import Doing, doing_away
from headway.traces.analysis.holders import LockHold
from headway.traces.analysis.stall_model import Cause, Part, StallKind
from headway.traces.analysis.stall_words import advice
from headway.traces.awaited import Awaited, awaited_at, has_a_time_out, waiting_line
from headway.traces.frames import Frame

APP = Frame("/app/app.py", 7, "work", 1)
BASE = "/usr/lib/python3.13/concurrent/futures/_base.py"
SITE = "/v/lib/python3.13/site-packages"


def of(function, file="/usr/lib/python3.13/threading.py"):
    return Frame(file, 1, function, 1)


def in_queue(function):
    return of(function, "/usr/lib/python3.13/queue.py")


WAIT = of("Condition.wait")


@pytest.mark.parametrize(
    ("stack", "awaited"),
    [
        ((WAIT, APP), Awaited.CONDITION),
        ((WAIT, of("Condition.wait_for"), APP), Awaited.CONDITION),
        ((WAIT, of("Event.wait"), APP), Awaited.EVENT),
        ((WAIT, of("Semaphore.acquire"), APP), Awaited.PERMIT),
        ((WAIT, of("Condition.wait_for"), of("Barrier._wait"), of("Barrier.wait"), APP), Awaited.BARRIER),
        ((of("Thread.join"), APP), Awaited.THREAD),
        ((of("Thread._wait_for_tstate_lock"), of("Thread.join"), APP), Awaited.THREAD),
        ((WAIT, in_queue("Queue.get"), APP), Awaited.QUEUE),
        ((WAIT, in_queue("Queue.put"), APP), Awaited.QUEUE),
        ((WAIT, of("Future.result", BASE), APP), Awaited.RESULT),
        ((WAIT, of("Event.wait"), of("wait", BASE), APP), Awaited.RESULT),
        (
            (
                WAIT,
                of("Queue.get", f"{SITE}/sqlalchemy/util/queue.py"),
                of("QueuePool._do_get", f"{SITE}/sqlalchemy/pool/impl.py"),
            ),
            Awaited.CONNECTION,
        ),
        ((of("Condition.__enter__"), in_queue("Queue.get"), APP), Awaited.LOCK),
        ((of("Condition._acquire_restore"), WAIT, APP), Awaited.LOCK),
        ((APP,), None),
        ((), None),
    ],
)
def test_the_stack_tells_what_a_thread_waits_for(stack, awaited):
    """A lock is awaited only where one is taken; events, queues and results wait in the same line of the library."""
    assert awaited_at(stack) is awaited


@pytest.mark.parametrize(
    ("line", "awaited"),
    [("got = lock.acquire()", Awaited.LOCK), ("item = jobs.get()", Awaited.QUEUE), ("work()", None)],
)
def test_a_line_of_the_program_tells_it_of_what_is_written_in_c(tmp_path, line, awaited):
    """Locks and simple queues have no frame of their own."""
    file = tmp_path / "app.py"
    file.write_text(f"jobs = queue.SimpleQueue()\n{line}\n")

    assert awaited_at((Frame(str(file), 2, "work", 1),)) is awaited


def line_with(function, text):
    """Return the frame of a library's function at its line with a text."""
    lines, first = inspect.getsourcelines(function)
    at = next(number for number, line in enumerate(lines) if line.strip() == text)
    return Frame(inspect.getsourcefile(function), first + at, function.__qualname__, first)


def test_a_condition_s_line_tells_whether_its_lock_is_taken_again():
    """After the wait, `Condition.wait` takes its lock, which may be written in C."""
    waits, restores = (
        line_with(threading.Condition.wait, text) for text in ("waiter.acquire()", "self._acquire_restore(saved_state)")
    )
    result = line_with(futures.Future.result, "self._condition.wait(timeout)")

    assert [awaited_at((one, result, APP)) for one in (waits, restores)] == [Awaited.RESULT, Awaited.LOCK]
    assert waiting_line((waits, result, APP)) is APP


def test_a_library_s_line_tells_whether_a_wait_has_a_time_out(tmp_path):
    """`Condition.wait` has a line of its own for each; of other waits, the program's line tells."""
    endless = line_with(threading.Condition.wait, "waiter.acquire()")
    timed = line_with(threading.Condition.wait, "gotit = waiter.acquire(True, timeout)")
    getting = line_with(queue.Queue.get, "self.not_empty.wait()")
    file = tmp_path / "app.py"
    file.write_text(
        "worker.join()\nworker.join(2)\nlock.acquire(timeout=1.5)\nlock.acquire()\nworker.join(timeout=None)\n"
    )
    lines = [Frame(str(file), number, "work", 1) for number in range(1, 6)]

    assert [has_a_time_out((one, getting, APP)) for one in (endless, timed)] == [False, True]
    assert [has_a_time_out((of("Thread.join"), lines[at])) for at in (0, 1, 4)] == [False, True, False]
    assert [has_a_time_out((one,)) for one in lines[2:4]] == [True, False]
    assert not has_a_time_out(())


def test_a_holder_that_waits_for_no_lock_is_not_said_to_wait_for_another_one():
    """The words of what it does are those of what it waits for."""
    assert doing_away((WAIT, of("Event.wait"), APP), ()).words == "waiting for an event"
    assert doing_away((WAIT, of("Future.result", BASE), APP), ()).words == "waiting for a result"
    assert doing_away((of("Condition.__enter__"), APP), ()) is Doing.BLOCKED
    assert doing_away((APP,), ()) is Doing.AWAY


@pytest.mark.parametrize(
    ("call", "in_a_loop", "in_a_request"),
    [
        (in_queue("Queue.get"), "await an `asyncio.Queue`", "look at the threads at the other end of the queue"),
        (of("Event.wait"), "await an `asyncio.Event`", "look at the thread that should set the event"),
        (of("Semaphore.acquire"), "await an `asyncio.Semaphore`", "hold each permit for less time"),
        (of("Future.result", BASE), "await the result", "look at what should give the result"),
    ],
)
def test_the_advice_is_that_of_what_is_awaited(call, in_a_loop, in_a_request):
    """There is no lock that anybody could hold for less time."""
    part = Part(Cause.BLOCKED, 1, 0, (WAIT, call, APP), lock=True)

    assert advice(StallKind.LOOP, part).startswith(in_a_loop)
    assert advice(StallKind.REQUEST, part).startswith(in_a_request)
    assert advice(StallKind.REQUEST, part).endswith(", or wait with a time-out")


def test_a_wait_with_a_time_out_is_not_advised_to_have_one():
    """The line that waits tells that it has one."""
    timed = line_with(threading.Condition.wait, "gotit = waiter.acquire(True, timeout)")
    part = Part(Cause.BLOCKED, 1, 0, (timed, in_queue("Queue.get"), APP), lock=True)

    assert advice(StallKind.REQUEST, part) == "look at the threads at the other end of the queue"


def test_a_lock_whose_owner_waits_for_an_event_is_released_before_that():
    """The thread that waits for the lock may be the one that ends the owner's wait."""
    holder = LockHold((1,), Doing.RESULT, (WAIT, of("Future.result", BASE), APP), 1)
    part = Part(Cause.BLOCKED, 1, 0, (APP,), lock=True, holders=(holder,))

    for kind in (StallKind.LOOP, StallKind.REQUEST):
        assert advice(kind, part).startswith("release the lock before the wait for a result in the thread that has it")
