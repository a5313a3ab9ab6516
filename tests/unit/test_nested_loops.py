"""An event loop that runs within another one: of the same library it is the same loop, of another one it blocks it."""

import pytest
from test_stalls import FOREVER, HANDLER, LIB, RUN_ONCE, SELECT

from headway.traces.analysis.stall_model import Cause, Part
from headway.traces.loops import Home, home_at
from headway.traces.model import Frame

EVENTS = Frame("/x/site-packages/trio/_core/_io_epoll.py", 200, "EpollIOManager.get_events")
STEPS = Frame("/x/site-packages/trio/_core/_run.py", 2700, "unrolled_run")
RUN = Frame(f"{LIB}/asyncio/runners.py", 195, "run")


@pytest.mark.parametrize(
    ("frames", "home"),
    [
        ((EVENTS, STEPS), Home.LOOP),
        ((SELECT, RUN_ONCE, FOREVER, RUN, HANDLER, STEPS), None),
        ((EVENTS, STEPS, HANDLER, RUN_ONCE, FOREVER), None),
        ((SELECT, RUN_ONCE, FOREVER, HANDLER, RUN_ONCE, FOREVER), Home.LOOP),
    ],
    ids=["trio", "asyncio in trio", "trio in asyncio", "nest_asyncio"],
)
def test_the_poll_of_an_inner_loop_is_no_home(frames, home):
    """The outer loop serves nothing meanwhile, so its lap goes on."""
    assert home_at(frames) is home


def test_a_loop_within_another_one_is_its_work():
    """The line of the program that runs the inner loop is where the outer one is blocked."""
    assert Part(Cause.BLOCKED, 1, 0, (SELECT, RUN_ONCE, FOREVER, RUN, HANDLER, STEPS)).place == HANDLER
    assert Part(Cause.BLOCKED, 1, 0, (SELECT, RUN_ONCE, FOREVER, HANDLER)).place == SELECT
