"""`headway.advise()`: how another process is told where the function is, and the words if it cannot be."""

import functools
import multiprocessing
import re
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headway.advice import door
from headway.advice.target import Target, parse_target, with_json
from headway.errors import UsageError


class Text:
    """A text."""

    def words(self, most: int) -> int:
        """Return the number of words."""
        return most

    @classmethod
    def of(cls, size: int) -> "Text":
        """Return a text."""
        return cls()


class Longer(Text):
    """A longer text."""


def traced(function: Any) -> Any:
    """Return a function around another one, which takes the name of that one."""

    @functools.wraps(function)
    def around(*args: Any) -> Any:
        return function(*args)

    return around


def plain(size: int) -> int:
    """Return a size."""
    return size


@functools.lru_cache(None)
def kept(size: int) -> int:
    """Return a size that is kept."""
    return size


slowed = traced(plain)


class Traced:
    """A class with methods of decorators."""

    @classmethod
    @traced
    def made(cls) -> int:
        """Return a number."""
        return 1

    renamed = classmethod(traced(plain))


def test_a_function_is_named_by_the_name_that_has_it() -> None:
    """A decorator gives its function the name of another one; the function that is given is the one to measure."""
    assert door._target_of(plain).name == "plain"
    assert door._target_of(slowed).name == "slowed"
    assert door._target_of(kept).name == "kept"
    assert door._target_of(Traced.made).name == "Traced.made"
    assert door._target_of(Traced.renamed).name == "Traced.renamed"


def test_a_function_around_one_of_another_module_has_the_name_of_its_own_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says that it belongs to the module of the function that it calls."""
    module = ModuleType("has_traced")
    vars(module)["words"] = traced(plain)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    target = door._target_of(module.words)
    assert (target.module, target.name) == ("has_traced", "words")


def test_a_function_that_no_name_has_is_refused() -> None:
    """Its own name is that of another function, which would be measured in its place."""
    for function in (traced(plain), kept.__wrapped__):
        with pytest.raises(UsageError, match=f"{function.__name__} of {__name__} is another object") as caught:
            door._target_of(function)
        assert "after its decorators" in caught.value.hint


def test_a_class_method_is_named_by_the_class_that_it_was_taken_from() -> None:
    """A class method needs no instance, so it is asked about like a function; an inherited one has its own class."""
    found = door._target_of(Text.of)
    assert isinstance(found, Target)
    assert (found.module, found.name) == (__name__, "Text.of")
    assert door._target_of(Longer.of).name == "Longer.of"


def test_a_method_of_an_object_has_a_way_that_works() -> None:
    """The hint names the function and the form of the inputs, and that function is accepted."""
    with pytest.raises(UsageError, match="a method of an object") as caught:
        door._target_of(Longer().words)
    assert caught.value.hint == (
        "pass Longer.words, and as the inputs a tuple for each call whose first element is the object"
    )
    assert door._target_of(Longer.words).name == "Text.words"


@pytest.mark.parametrize("file", [None, "<stdin>"])
def test_a_function_of_an_interactive_session_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, file: str | None
) -> None:
    """Neither a prompt, a cell of a notebook nor a program from a pipe can be imported by another process."""
    session = ModuleType("__main__")
    if file:
        session.__file__ = file
    exec("def typed(): pass", session.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", session)
    with pytest.raises(UsageError, match="typed belongs to an interactive session") as caught:
        door._target_of(session.typed)
    assert caught.value.hint == "put the function into a module first"


def test_a_function_of_an_archive_is_found_unless_it_is_in_the_main_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of a zipapp is imported from the archive; its main module is named as such, and no interactive session."""
    archive = tmp_path / "app.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archived/__init__.py", "")
        file.writestr("archived/work.py", "def work(): pass\n")
    monkeypatch.syspath_prepend(str(archive))
    from archived.work import work

    target = door._target_of(work)
    assert (target.module, target.name, target.folder) == ("archived.work", "work", archive)

    program = ModuleType("__main__")
    program.__file__ = str(archive / "__main__.py")
    exec("def typed(): pass", program.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", program)
    with pytest.raises(UsageError, match=r"typed belongs to the main module of the archive .*app\.pyz") as caught:
        door._target_of(program.typed)
    assert caught.value.hint == "put the function into another module of app.pyz"


@pytest.mark.parametrize(
    ("folder", "is_own"), [("src", True), ("lib/site-packages", False), ("lib/python3/dist-packages", False)]
)
def test_the_folder_of_installed_packages_is_not_the_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, *, is_own: bool
) -> None:
    """The folder of a module goes before every other interpreter's own path, but not one with all installed packages."""
    file = tmp_path / folder / "package" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    module = ModuleType("package.module")
    module.__file__ = str(file)
    vars(module)["len"] = len
    monkeypatch.setattr(door.inspect, "getmodule", lambda _function: module)

    found = door._target_of(len)

    assert found.folder == (file.parents[1].resolve() if is_own else Path.cwd())


def test_an_input_may_have_arguments_by_name() -> None:
    """A partial of the function itself is a call; a partial of another function is an argument like any other."""
    callback = functools.partial(print, 1)
    assert door._call_of(functools.partial(Text.words, Text, most=3), Text.words) == ((Text,), {"most": 3})
    assert door._call_of(callback, Text.words) == ((callback,), {})
    assert door._call_of((1, 2), Text.words) == ((1, 2), {})
    # Python makes a partial of `callback` one of `print`, with the arguments of both.
    assert door._call_of(functools.partial(callback, 2, sep=""), callback) == ((2,), {"sep": ""})
    other = functools.partial(print, 2)
    assert door._call_of(other, callback) == ((other,), {})


def test_inputs_that_cannot_be_pickled_are_told() -> None:
    """A lock of multiprocessing raises RuntimeError, which no newcomer should see."""
    with pytest.raises(UsageError, match="the inputs cannot be pickled: Lock objects should only be shared"):
        door.advise(Text.of, [multiprocessing.Lock()])


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"budget_s": "10"}, "budget_s is '10', expected a number: 5 to 10,000,000 seconds"),
        ({"budget_s": 0}, "budget_s is 0, expected 5 to 10,000,000 seconds"),
        ({"budget_s": -1}, "budget_s is -1, expected 5 to 10,000,000 seconds"),
        ({"budget_s": float("nan")}, "budget_s is nan, expected 5 to 10,000,000 seconds"),
        ({"workers": 0}, "workers is 0, expected 1 to 1024"),
        ({"workers": 2.0}, "workers is 2.0, expected a whole number: 1 to 1024"),
        ({"workers": True}, "workers is True, expected a whole number: 1 to 1024"),
        ({"interpreters": "3.12"}, "interpreters is '3.12', expected a list of texts"),
        ({"interpreters": [3.12]}, "interpreters is [3.12], expected a list of texts"),
        ({"interpreters": iter([3.12])}, "interpreters is [3.12], expected a list of texts"),
        ({"interpreters": 3}, "interpreters is 3, expected a list of texts"),
        ({"say": "yes"}, "say is 'yes', expected a function"),
        ({"inputs": 1000}, "inputs is 1000, expected an element for each call"),
        ({"inputs": "text"}, "inputs is 'text', expected an element for each call"),
        ({"inputs": b"text"}, "inputs is b'text', expected an element for each call"),
    ],
)
def test_an_argument_that_no_advice_can_have_is_refused(
    values: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is launched or stored; the command line refuses such values, too."""
    monkeypatch.setattr(door, "advise_on", lambda *_, **__: pytest.fail("it began"))
    with pytest.raises(UsageError, match="^" + re.escape(told)):
        door.advise(Text.of, **{"inputs": [3], **values})


@pytest.mark.parametrize("deep", [101, 60_000])
def test_json_with_too_many_levels_is_refused(deep: int) -> None:
    """Code that calls itself for each level would end with a RecursionError."""
    with pytest.raises(UsageError, match="more than 100 levels"):
        with_json(parse_target("app:f"), "[" * deep + "]" * deep)
    assert with_json(parse_target("app:f"), "[" * 100 + "]" * 100).inputs["kind"] == "json"


def test_arguments_of_all_documented_types_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole number of seconds, an iterator of names, and inputs that have only indices."""

    class Indexed:
        def __getitem__(self, at: int) -> int:
            return [3, 4][at]

    asked = []
    monkeypatch.setattr(door, "advise_on", lambda request, **_: asked.append(request))
    door.advise(Text.of, Indexed(), budget_s=5, workers=1, interpreters=iter(["3.12"]), say=print)
    (request,) = asked
    assert (request.budget_s, request.workers, request.interpreters) == (5, 1, ("3.12",))
    assert request.target.inputs is not None
