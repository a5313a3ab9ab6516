"""The function behind which threads waited most: the steps of a simulated role are one, and a note does not tell of it."""

import dataclasses

import numpy as np
import pytest
from told_traces import COMPUTE, Script, convoy, told

from headway.traces.analysis import analyse
from headway.traces.analysis import findings as rules
from headway.traces.analysis.behind import guilty_function, told_already
from headway.traces.analysis.result import Finding
from headway.traces.frames import Frame
from headway.traces.model import Trace

STEPS = ("hold", "call", "put jobs", "take permits, then post", "reply")
NOTE = Finding(kind="contended-lock", weight="note", fact="threads wait there", cost_ns=10**9, frame=COMPUTE)


def in_steps(*, executable: str = "headway simulate", forced: bool = True) -> Trace:
    """Return a trace of a worker that keeps a client waiting in equal parts in each of its five steps, from line 10 on."""
    script = Script()
    for number in range(20):
        now, stack = number * 20, 1 + number % len(STEPS)
        script.hold(0, now, now + 8, stack=stack, forced=forced).wait(1, now, stack=6)
        script.hold(1, now + 8, now + 9, stack=6)
    frames = [Frame("app.toml", 10 + at, f"worker: {name}", 10) for at, name in enumerate(STEPS)]
    return dataclasses.replace(
        script.trace(400, "worker 0", "client", executable=executable),
        frames=(Frame("", 0, "?"), *frames, Frame("app.toml", 20, "client: receive answers", 20)),
        stack_parent=np.zeros(7, np.int64),
        stack_frame=np.arange(7),
    )


@pytest.mark.parametrize("during", ["while `worker` ran with the GIL", "in holds that ended in `worker`"])
def test_the_steps_of_a_simulated_role_are_one_function(during: str) -> None:
    """A role that keeps others waiting in many steps is named, and one line of it."""
    found = told(in_steps(forced=during.startswith("while")))["behind-a-function"]

    assert found.fact.startswith(
        f"100 % of all waiting for the GIL, 160 ms, happened {during}; it held for 160 ms in 20 "
    )
    assert "; most of the waiting happened at app.toml:1" in found.fact
    assert found.advice.count("`worker`") == 1


def test_functions_of_a_recorded_program_have_their_whole_names() -> None:
    """The names of a recorded program have no steps in them, whatever signs they have."""
    assert "behind-a-function" not in told(in_steps(executable="/usr/bin/python3.13"))


def test_a_finding_at_another_step_of_a_role_tells_of_the_role() -> None:
    """A role that a finding names has no finding of its own."""
    found = analyse(in_steps())
    guilty = guilty_function(found)
    assert guilty is not None
    frames = [Frame("app.toml", 14, "worker: reply", 10), Frame("app.toml", 20, "worker 2: reply", 20)]
    at_steps = [Finding(kind="convoy", weight="problem", fact="threads wait there", frame=one) for one in frames]

    assert [told_already(found, guilty, [one]) for one in at_steps] == [at_steps[0], None]


def test_a_note_on_a_line_of_the_function_does_not_stand_for_its_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first finding names the function, also where a note on one of its lines has the larger cost."""
    found = analyse(convoy())
    guilty = guilty_function(found)
    assert guilty is not None
    problem = dataclasses.replace(NOTE, weight="problem", cost_ns=1)
    assert told_already(found, guilty, [NOTE, problem]) == problem
    assert told_already(found, guilty, [NOTE]) is None

    note = dataclasses.replace(NOTE, cost_ns=2 * found.wait_ns)
    monkeypatch.setattr(rules, "RULES", (*rules.RULES, lambda _: iter([note])))
    costly = dataclasses.replace(found.gils[0], handover_ns=1000 * found.wall_ns)
    kinds = [one.kind for one in rules.findings(dataclasses.replace(found, gils=(costly,)))]
    assert kinds[:2] == ["convoy", "hand-overs"]
