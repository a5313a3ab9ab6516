"""The code to paste runs as it is, whatever the function is called."""

import runpy
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headway.advice.code import code_for, guard_for
from headway.advice.target import parse_target, with_inputs

LIBRARY = """
def given(): return [1, 2]
def plain(n): return n
def args(n): return n
def pool(n): return n
def inputs(n): return n
def whole(n): yield n
async def coroutine(n): return n
async def main(n): return n
async def one(n): return n
class result:
    @staticmethod
    def doubled(n): return 2 * n
"""


@pytest.mark.parametrize("model", ["serial", "threads", "asyncio"])
@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("plain", "plain", [1, 2]),
        ("args", "plain", [1, 2]),
        ("pool", "plain", [1, 2]),
        ("inputs", "plain", [1, 2]),
        ("whole", "generator", [[1], [2]]),
        ("coroutine", "async", [1, 2]),
        ("main", "async", [1, 2]),
        ("one", "async", [1, 2]),
        ("result.doubled", "plain", [2, 4]),
    ],
)
def test_the_code_gives_the_results(tmp_path, monkeypatch, model, name, kind, expected):
    """The pasted code has the results of all calls, also if the function has a name that the code uses itself."""
    if model == "asyncio" and kind != "async":
        return
    (tmp_path / "library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    target = with_inputs(parse_target(f"library:{name}", cwd=tmp_path), "library:given")
    function: Any = SimpleNamespace(kind=kind)
    pasted = tmp_path / "pasted.py"
    pasted.write_text(code_for(target, function, model, 2))
    assert runpy.run_path(str(pasted), run_name="__main__")["results"] == expected


def test_the_guard_measures_the_function_and_not_its_own_result(tmp_path):
    """A function whose name the test uses is imported under another one."""
    target = with_inputs(parse_target("library:result.doubled", cwd=tmp_path), "library:given")
    function: Any = SimpleNamespace(kind="plain")
    text = guard_for(target, function, "threads", 2, 1.5)
    compile(text, "test", "exec")
    assert "from library import result as result_\n" in text
    assert "headway(result_.doubled, *example)" in text
