"""`headway advise` on functions that change something inside an object, and on objects that are no function."""

import pytest
from advised_app import CORES, interpreter, made
from real_programs import LIMIT_S

from headway.advice.examined import examine
from headway.advice.observing import observed
from headway.advice.refused import refuse
from headway.advice.target import parse_target, with_inputs, with_json
from headway.errors import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OBJECTS = """
class Shelf:
    made = 0
    def __init__(self): self.looked, self.names, self.size = 0, [], 3
    def look(self): self.looked += 1; return self.size
    def keep(self): self.names.append("x"); return len(self.names)
    def total(self): return self.size
    @classmethod
    def make(cls): cls.made += 1; return cls.made
shelf = Shelf()
look, keep, total, make = shelf.look, shelf.keep, shelf.total, Shelf.make
other = Shelf().look
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("look", "shelves.shelf.looked is bound anew"),
        ("keep", "shelves.shelf.names changes"),
        ("make", "shelves.Shelf.made is bound anew"),
        ("other", "self.looked is bound anew"),
        ("total", None),
    ],
)
def test_a_change_inside_an_object_is_a_side_effect(tmp_path, monkeypatch, name, words):
    """An object that a name of the module holds, the class, or the object of a bound method: in processes it is lost."""
    (made(tmp_path, monkeypatch) / "shelves.py").write_text(OBJECTS)
    found = examine(parse_target(f"shelves:{name}"), interpreter("3.13"), CORES, limit_s=LIMIT_S).function.effects

    assert found == (() if words is None else (("globals", words),))


def test_an_object_that_is_not_observed_needs_inputs(tmp_path, monkeypatch):
    """No other command would help: the hint is to give inputs."""
    made(tmp_path, monkeypatch)
    (tmp_path / "kept.py").write_text("import functools\n@functools.lru_cache\ndef f(n): return n\nf(1)\n")
    with (
        pytest.raises(UsageError, match="which is not observed") as error,
        observed(parse_target("kept:f"), "python3 -c 'import kept'", "", lambda _: None),
    ):
        pass

    assert "--inputs" in error.value.hint


def test_the_object_of_a_method_goes_with_each_call(tmp_path, monkeypatch):
    """A pool pickles the whole object with the method; a function of a module goes by its name, and is no argument."""
    made(tmp_path, monkeypatch)
    (tmp_path / "big.py").write_text(
        "class Table:\n    def __init__(self): self.rows = list(range(300_000))\n    def at(self, n): return self.rows[n]\n"
        "at = Table().at\ndef f(n): return n\nasync def g(n): return n\n"
    )
    bound, plain, coroutine = (
        examine(with_json(parse_target(f"big:{name}"), "[3]"), interpreter("3.13"), CORES, limit_s=LIMIT_S).function
        for name in ("at", "f", "g")
    )

    assert bound.own_bytes > 800_000
    assert bound.pickle_s > 1e-3
    assert plain.own_bytes < 100
    assert bound.input_bytes == plain.input_bytes == coroutine.input_bytes
    assert coroutine.own_bytes == plain.own_bytes


def test_a_change_of_a_methods_own_object_is_a_side_effect_with_and_without_a_pickle(tmp_path, monkeypatch):
    """An object with a lock cannot be pickled, so its attributes are compared."""
    (made(tmp_path, monkeypatch) / "tills.py").write_text(
        "import threading\nclass Till:\n    def __init__(self): self.paid = 0\n    def pay(self): self.paid += 1\n"
        "class Locked(Till):\n    def __init__(self): self.paid, self.lock = 0, threading.Lock()\n"
        "    def pay(self): self.paid += 1\ntills, locked = lambda: [(Till(),)], lambda: [(Locked(),)]\n"
    )
    plain, unpicklable = (
        examine(
            with_inputs(parse_target(f"tills:{name}.pay"), f"tills:{inputs}"),
            interpreter("3.13"),
            CORES,
            limit_s=LIMIT_S,
        )
        for name, inputs in (("Till", "tills"), ("Locked", "locked"))
    )

    assert plain.function.effects == (("arguments", "changes its arguments: each sample has new ones"),)
    assert (plain.function.unpicklable, plain.function.changes_arguments) == ((), True)
    assert unpicklable.function.effects == (("globals", "self.paid is bound anew"),)
    assert unpicklable.function.unpicklable == ("its arguments",)


def test_the_input_at_which_a_function_raises_is_told_and_only_an_exception_is_raised(tmp_path, monkeypatch):
    """The second of three inputs raises; a function that leaves a process behind does not raise."""
    (made(tmp_path, monkeypatch) / "some.py").write_text(
        "import subprocess\ndef half(n): return 1 / n\nnumbers = [4, 0, 2]\n"
        "def leaves(n): subprocess.Popen(['sleep', '9'], start_new_session=True)\n"
    )
    half, leaves = (
        refuse(examine(target, interpreter("3.13"), CORES, limit_s=LIMIT_S), target)
        for target in (with_inputs(parse_target(f"some:{name}"), "some:numbers") for name in ("half", "leaves"))
    )

    assert half.message.startswith("some:half: the function raises with input 2 of 3: ZeroDivisionError: ")
    assert leaves.message == "some:leaves: it leaves a process behind with each call"
    assert "before it returns" in leaves.hint


def test_an_iterator_that_works_only_later_is_used_up_like_a_generator(tmp_path, monkeypatch):
    """A call that returns `map(...)` has done no work; an iterator over what is there already is a result."""
    (made(tmp_path, monkeypatch) / "lazy.py").write_text(
        "import itertools\ndef mapped(): return map(abs, range(9))\ndef chained(): return itertools.chain([1], [2])\n"
        "def listed(): return iter([1, 2])\n"
    )
    kinds = [
        examine(parse_target(f"lazy:{name}"), interpreter("3.13"), CORES, limit_s=LIMIT_S).function.kind
        for name in ("mapped", "chained", "listed")
    ]

    assert kinds == ["generator", "generator", "plain"]


def test_a_text_is_no_list_of_inputs(tmp_path, monkeypatch):
    """Its characters would be a call each."""
    (made(tmp_path, monkeypatch) / "texts.py").write_text("TEXT = 'a text'\ndef size(text): return len(text)\n")
    target = with_inputs(parse_target("texts:size"), "texts:TEXT")
    error = refuse(examine(target, interpreter("3.13"), CORES, limit_s=LIMIT_S), target)

    assert error.message.endswith("TEXT is 'a text', of which each element would be a call")
    assert "[TEXT]" in error.hint
