"""The recorder finds the layout of stacks wherever it begins, on each interpreter that has stacks."""

from pathlib import Path

import pytest
from real_programs import FOUND, WITH_STACKS, ran, unobserved

from headway.agent import AGENT_PATH
from headway.library import library_path

WITH_PERF = [one for one in WITH_STACKS if not one.name.startswith("3.11")]
EACH_WITH_STACKS = [one for one in FOUND if not one.name.startswith(("3.8", "3.9", "3.10"))]
UNMAPPING = str(Path(__file__).with_name("unmapping_program.py"))

HOT = """
import struct, sys
sys.path.insert(0, sys.argv[1])
from headway_agent import frames
from headway_agent.library import load
library = load(sys.argv[2])
layout = frames.find(library)
class Hot:
    def __init__(self, begins):
        if begins:
            frames.check(layout, library)
            here = sys._getframe()
            walked = [code for code, _ in struct.iter_unpack("=Qq", library.walk(layout.packed(), 9))]
            print(walked == [id(here.f_code), id(here.f_back.f_code)])
for number in range(1000):
    Hot(number == 999)
"""


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_STACKS, ids=lambda one: one.id)
def test_stacks_are_known_below_a_call_of_a_class_that_is_made_often(interpreter, tmp_path):
    """From 3.13 on, the interpreter puts a frame of its own below the `__init__` of such a call, which no stack shows."""
    command = [interpreter.executable, "-c", HOT, str(AGENT_PATH), str(library_path())]

    assert ran(command, {}, tmp_path) == (0, "True\n", "")


@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", WITH_PERF, ids=lambda one: one.id)
def test_stacks_are_known_under_perf(interpreter, tmp_path):
    """With `-X perf` C makes each call of Python's, and a frame of C's own lies between all frames."""
    command = [interpreter.executable, "-X", "perf", "-c", HOT, str(AGENT_PATH), str(library_path())]

    assert ran(command, {}, tmp_path) == (0, "True\n", "")


@pytest.mark.slow
@pytest.mark.matrix("interpreter")
@pytest.mark.parametrize("interpreter", EACH_WITH_STACKS, ids=lambda one: one.id)
def test_stacks_are_found_while_other_threads_unmap_memory(interpreter, tmp_path):
    """Nothing is read that words of a thread's state point to: another thread may unmap it at any moment."""
    command = [interpreter.executable, UNMAPPING, str(AGENT_PATH), str(library_path()), "60"]

    assert ran(command, unobserved(), tmp_path) == (0, "found\n", "")
