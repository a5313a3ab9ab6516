"""The line of the program that has called code which a library, or `dataclass`, has generated."""

import pytest

from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.stall_model import Cause, Part
from headway.traces.frames import Frame

LIB = "/usr/lib/python3.13"
RUN_ONCE = Frame(f"{LIB}/asyncio/base_events.py", 1989, "BaseEventLoop._run_once")
RUN = Frame(f"{LIB}/asyncio/events.py", 88, "Handle._run")
ORDER = Frame("/app/shop.py", 17, "order")
EXECUTE = Frame("/v/lib/python3.13/site-packages/sqlalchemy/orm/session.py", 2351, "Session.execute")
WRAPPER = Frame("<sqlalchemy generated _connection_for_bind() wrapper>", 2, "_connection_for_bind")
INIT = Frame("<string>", 3, "__create_fn__.<locals>.__init__")
TYPED = Frame("<ipython-input-3-0123>", 2, "order")
SENT = Frame("<dynamic-code>", 4, "addresses")
TASK = Frame("/app/src/worker.py", 83, "run_task")
SCRIPT = Frame("<string>", 7, "main")


@pytest.mark.parametrize(
    ("stack", "own"),
    [
        ((INIT, ORDER), ORDER),
        ((EXECUTE, WRAPPER, EXECUTE, ORDER), ORDER),
        ((INIT, SCRIPT), INIT),
        ((EXECUTE, SCRIPT), SCRIPT),
        ((TYPED, ORDER), TYPED),
        ((INIT, TYPED, EXECUTE), TYPED),
        ((EXECUTE, SENT, EXECUTE, TASK), SENT),
    ],
)
def test_generated_code_is_told_by_the_line_that_called_it(stack, own):
    """Only code without a file that the user has written, as of `-c`, a notebook or cloudpickle, is told by its own line."""
    assert own_frame(stack) == own
    assert Part(Cause.OWN, 1, 0, (*stack, RUN, RUN_ONCE)).place == own


def test_a_loops_callback_in_generated_code_has_no_other_line():
    """A line outside of the event loop's machinery is not one that the loop called."""
    assert Part(Cause.OWN, 1, 0, (INIT, RUN, RUN_ONCE, ORDER)).place == INIT
