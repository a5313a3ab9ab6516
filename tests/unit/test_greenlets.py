"""Greenlets: stacks of a loop's thread that do not show the loop."""

import pytest
from test_homes import Told

from headway.live.homes import Homes
from headway.native import HOME_LOOP, HOME_NONE, HOME_OUTSIDE
from headway.traces.frames import Frame
from headway.traces.loops import Home, home_at, is_a_hub, is_in_a_loop

SITE = "/v/lib/python3.13/site-packages"
LIB = "/usr/lib/python3.13"
MAIN = Frame("/app/app.py", 90, "<module>", 1)
BEGIN = Frame(f"{LIB}/threading.py", 1032, "Thread._bootstrap", 1030)
WORK = Frame("/app/app.py", 12, "work", 10)
GEVENT = (Frame(f"{SITE}/gevent/hub.py", 647, "Hub.run", 620),)
ACCEPTS = (Frame(f"{SITE}/gevent/baseserver.py", 230, "BaseServer._do_read", 220), *GEVENT)
EVENTLET = (
    Frame(f"{SITE}/eventlet/hubs/epolls.py", 31, "Hub.do_poll", 30),
    Frame(f"{SITE}/eventlet/hubs/poll.py", 80, "Hub.wait", 71),
    Frame(f"{SITE}/eventlet/hubs/hub.py", 362, "BaseHub.run", 334),
)
TIMERS = EVENTLET[1:]
LIBUV = (Frame(f"{SITE}/gevent/libuv/loop.py", 553, "loop.run", 515), *GEVENT)
LIBEV = (Frame(f"{SITE}/gevent/libev/corecffi.py", 366, "loop.run", 359), *GEVENT)
ASYNCIO = (
    Frame(f"{LIB}/selectors.py", 452, "EpollSelector.select", 440),
    Frame(f"{LIB}/asyncio/base_events.py", 1989, "BaseEventLoop._run_once", 1960),
    Frame(f"{LIB}/asyncio/base_events.py", 679, "BaseEventLoop.run_forever", 670),
)
IN_MAIN, IN_A_THREAD_OF_C = (*ASYNCIO, MAIN), (*ASYNCIO, Frame("/app/app.py", 30, "called_by_c", 29))
GREENLET = (WORK, Frame(f"{SITE}/gunicorn/workers/ggevent.py", 120, "GeventWorker.handle", 110))
QUERY = (WORK, Frame(f"{SITE}/sqlalchemy/ext/asyncio/engine.py", 900, "AsyncConnection.run_sync.<locals>.run", 890))


@pytest.mark.parametrize("home", [GEVENT, LIBUV, LIBEV, EVENTLET, TIMERS])
def test_a_hub_is_a_loop(home):
    """A loop of gevent waits in C, or calls C by CFFI, and eventlet's polls or sleeps; a hub's callback is in the loop."""
    assert home_at(home) is Home.LOOP
    assert is_a_hub(home)
    assert home_at((WORK, *home[-1:])) is None
    assert is_in_a_loop((WORK, *home[-1:]), home)


def test_asyncios_loop_is_no_hub():
    """The main thread's own code does not run while asyncio's loop does, so the loop is no hub."""
    assert not is_a_hub(IN_MAIN)
    assert not is_a_hub(())


@pytest.mark.parametrize(
    ("frames", "home", "returned", "is_inside"),
    [
        (GREENLET, GEVENT, False, True),
        (GREENLET, EVENTLET, True, True),
        ((WORK, BEGIN), GEVENT, False, True),  # gevent's threads are greenlets
        ((WORK, MAIN), EVENTLET, True, True),  # the main thread's own code is one
        ((WORK, MAIN), GEVENT, False, False),  # or the hub has ended
        (QUERY, IN_MAIN, False, True),
        ((WORK,), IN_MAIN, True, True),
        ((WORK,), IN_MAIN, False, False),  # it may be a function that the interpreter calls at its exit
        ((WORK, MAIN), IN_MAIN, True, False),
        ((WORK, BEGIN), (*ASYNCIO, BEGIN), True, False),
        ((WORK, IN_A_THREAD_OF_C[-1]), IN_A_THREAD_OF_C, True, False),
        ((Frame(f"{LIB}/threading.py", 1500, "_shutdown", 1490),), IN_MAIN, True, False),
        ((), GEVENT, True, False),
    ],
)
def test_a_greenlets_stack_is_in_the_loop(frames, home, returned, is_inside):
    """A stack that begins elsewhere than the thread is that of a greenlet: certainly so below a hub or in SQLAlchemy."""
    assert is_in_a_loop(frames, home, returned=returned) is is_inside


def test_stacks_before_a_hubs_first_wait_are_settled_anew():
    """A server accepts its first connection before its hub waits for the first time: that stack is inside, too."""
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1]
    told.in_the_file = {1: (WORK, MAIN)}
    homes.settle()
    assert told.settled == [(1, HOME_OUTSIDE)]

    told.fresh_ones = [2, 3, 4, 5]
    told.in_the_file |= {2: GEVENT, 3: (WORK, BEGIN), 4: GREENLET, 5: GEVENT}
    homes.settle()

    assert told.settled[1:] == [(1, HOME_NONE), (2, HOME_LOOP), (3, HOME_NONE), (4, HOME_NONE), (5, HOME_LOOP)]


def test_a_greenlet_of_an_event_loop_is_not_outside():
    """SQLAlchemy's greenlets are in asyncio's loop; the main thread's own code is outside of it."""
    told = Told()
    homes = Homes(told, told)
    told.fresh_ones = [1, 2, 3]
    told.in_the_file = {1: QUERY, 2: IN_MAIN, 3: (WORK, MAIN)}
    homes.settle()

    assert told.settled == [(1, HOME_NONE), (2, HOME_LOOP), (3, HOME_OUTSIDE)]
