"""Lines of bytecode offsets, compared with the interpreters' own."""

import importlib
import json
import re
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from headway.traces.linetable import UNKNOWN_LINE, lines

MODULES = ["argparse", "ast", "asyncio.base_events", "dataclasses", "decimal", "inspect", "json.decoder", "typing"]
INTERPRETERS = sorted(
    path
    for pattern in (".pyenv/versions/*/bin/python3.*", ".cache/headway/interpreters/*/bin/python3.*")
    for path in Path.home().glob(pattern)
    if re.fullmatch(r"python3\.1[1-5]t?", path.name)
)
CHILD = """
import base64, importlib, json, sys

def codes(code):
    yield code
    for one in code.co_consts:
        if hasattr(one, "co_code"):
            yield from codes(one)

found = []
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    with open(module.__file__, encoding="utf-8") as file:
        top = compile(file.read(), module.__file__, "exec")
    for code in codes(top):
        table = base64.b64encode(code.co_linetable).decode()
        found.append([table, code.co_firstlineno, [position[0] for position in code.co_positions()]])
json.dump(found, sys.stdout)
"""


def codes(code):
    """Yield a code object and all code objects nested in it."""
    yield code
    for one in code.co_consts:
        if hasattr(one, "co_code"):
            yield from codes(one)


@pytest.mark.parametrize("name", MODULES)
def test_lines_are_those_of_the_interpreter(name):
    """Each instruction of each function of a module is on the line of `co_positions` and `co_lines`."""
    path = importlib.import_module(name).__file__
    for code in codes(compile(Path(path).read_text(), path, "exec")):
        expected = {2 * i: position[0] or UNKNOWN_LINE for i, position in enumerate(code.co_positions())}
        assert lines(code.co_linetable, code.co_firstlineno, expected) == expected

        ranges = {at: line or UNKNOWN_LINE for low, high, line in code.co_lines() for at in range(low, high)}
        assert lines(code.co_linetable, code.co_firstlineno, ranges) == ranges


@pytest.mark.slow
@pytest.mark.parametrize("python", INTERPRETERS, ids=lambda path: path.parts[-3])
def test_lines_are_those_of_other_interpreters(python):
    """The lines are the same for every interpreter from 3.11 on that is found here."""
    out = subprocess.run([str(python), "-c", CHILD, *MODULES], capture_output=True, check=True).stdout
    found = json.loads(out)

    assert len(found) > 500
    for table, first_line, positions in found:
        expected = {2 * i: line or UNKNOWN_LINE for i, line in enumerate(positions)}
        assert lines(b64decode(table), first_line, expected) == expected


def test_before_the_first_instruction_is_the_functions_line():
    """A negative offset gives the first line, also without a table."""
    code = compile("\n\n\ndef f():\n    return 1\n", "x.py", "exec").co_consts[0]

    assert code.co_firstlineno == 4
    assert lines(code.co_linetable, 4, [-1, -2, -(2**31)]) == {-1: 4, -2: 4, -(2**31): 4}
    assert lines(b"", 4, [-2]) == {-2: 4}


@pytest.mark.parametrize(
    "table",
    [
        b"",
        bytes([0x80 | 13 << 3]),  # a delta is missing
        bytes([0x80 | 13 << 3, *[0x7F] * 4000]),  # a number without an end
        bytes([0x80 | 13 << 3, 0x3F]),  # a line below 0
        bytes([0x80 | 14 << 3, 2, 0]),  # cut off
        bytes([0x80 | 13 << 3, *[0x7E] * 6, 0x3E]),  # a line beyond any file
    ],
)
def test_a_damaged_table_has_no_lines(table):
    """A damaged table gives an unknown line, whatever its bytes."""
    assert lines(table, 5, [0, 2, 10**9])[10**9] == UNKNOWN_LINE
    assert lines(table, 5, [0])[0] == UNKNOWN_LINE


def test_each_offset_is_looked_up_once():
    """Offsets may come in any order, and more than once."""
    code = compile("a = 1\nb = 2\nc = 3\n", "x.py", "exec")
    count = len(list(code.co_positions()))
    offsets = [*range(0, 2 * count, 2), *range(2 * count - 2, -1, -2)]

    found = lines(code.co_linetable, code.co_firstlineno, offsets)
    assert len(found) == count
    assert set(found.values()) >= {1, 2, 3}
