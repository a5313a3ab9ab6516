"""Finds, in a program's source, the locks that it makes, the lines that take one, and the lines that run with one.

`with self._lock:` takes the lock `_lock` of its class, and its body runs with it. So do the lines between
`lock.acquire()` and the last `lock.release()` of a function. A lock is known by its name: the trace does not tell two objects
of one class apart.
"""

import ast
import functools
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import final

from headway.traces.frames import Frame
from headway.traces.sources import source

__all__ = ["Lock", "Stands", "locks_made", "locks_taken", "stands"]

_MAKERS = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock"})

_LARGEST = 1 << 20
"""The largest source that is parsed, in bytes: a tree takes a hundred times the memory of its source."""


@final
@dataclass(frozen=True)
class Lock:
    """A lock, by the name that a line has for it.

    Attributes:
        name: The last part of the name: `_lock` for `self._lock`, `lock_of()` for `self.lock_of(key)`.
        owner: The class whose attribute it is (of classes that inherit from each other in one file, the base); "" if the
            line does not tell it.
    """

    name: str
    owner: str = ""

    def may_be(self, other: "Lock") -> bool:
        """Tell whether both may be names of one lock."""
        return self.name == other.name and (self.owner == other.owner or not self.owner or not other.owner)


class Stands(Enum):
    """The relation of a line to a lock."""

    TAKES = "takes"
    """The thread takes the lock there."""
    INSIDE = "inside"
    """The line runs with the lock."""
    OUTSIDE = "outside"
    """The function takes the lock elsewhere, and this line runs without it."""
    UNKNOWN = "unknown"
    """The line and its function do not name the lock."""


@final
@dataclass(frozen=True)
class _Guard:
    """Lines that run with a lock, and the function that they are in."""

    lock: Lock
    first: int
    last: int
    function: tuple[int, int]


@final
@dataclass(frozen=True)
class _Guards:
    """The locks of one file: those that lines take, by line, and the lines that run with one."""

    taken: dict[int, tuple[Lock, ...]]
    guards: tuple[_Guard, ...]
    made: frozenset[str]


def locks_made(filename: str) -> frozenset[str]:
    """Return the names of the locks that a file makes: `guard` of `self.guard = threading.Lock()`.

    A name for a list or dict of locks is one of them. The set is empty if the file cannot be read.
    """
    return _guards(filename).made


def locks_taken(frame: Frame, changed: Collection[str] = ()) -> tuple[Lock, ...]:
    """Return the locks that a line takes; () if it takes none, or if its file cannot be read or is in `changed`."""
    return () if frame.filename in changed else _guards(frame.filename).taken.get(frame.line, ())


def stands(frame: Frame, lock: Lock, changed: Collection[str] = ()) -> Stands:
    """Return what a line tells of a lock. The lines of files in `changed` are not those of the trace."""
    if frame.filename in changed:
        return Stands.UNKNOWN
    found = _guards(frame.filename)
    mine = [one for one in found.guards if one.lock.may_be(lock)]
    if any(one.may_be(lock) for one in found.taken.get(frame.line, ())):
        return Stands.TAKES
    if any(one.first <= frame.line <= one.last for one in mine):
        return Stands.INSIDE
    # A function that is defined in another one runs later, with or without the lock of that one.
    if any(one.function[0] == frame.first_line for one in mine):
        return Stands.OUTSIDE
    return Stands.UNKNOWN


@functools.lru_cache(maxsize=256)
def _guards(filename: str) -> _Guards:
    """Return the locks of a file. A very large file, or one that is no Python of this interpreter's version, has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program's own source, as an invalid escape sequence
            tree = ast.parse(source(filename, _LARGEST))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Guards({}, (), frozenset())
    finder = _Finder(tree)
    try:
        finder.visit(tree)
    except RecursionError:
        return _Guards({}, (), frozenset())
    taken = {line: tuple(dict.fromkeys(locks)) for line, locks in finder.taken.items()}
    return _Guards(taken, tuple(finder.guards), frozenset(finder.made))


@final
class _Finder(ast.NodeVisitor):
    """Collects the locks of a module."""

    def __init__(self, tree: ast.Module) -> None:
        classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
        self._bases = {
            one.name: next((base.id for base in one.bases if isinstance(base, ast.Name)), "") for one in classes
        }
        self._owner = ""
        self._function = (0, 0)
        self.taken: dict[int, list[Lock]] = {}
        self.guards: list[_Guard] = []
        self.made: set[str] = set()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit a class, the owner of what its methods call `self.NAME`."""
        outer, self._owner = self._owner, self._root(node.name)
        self.generic_visit(node)
        self._owner = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit a function, whose calls of `acquire()` and `release()` belong together."""
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Visit a coroutine, as a function."""
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._function
        # A decorated function begins, for Python, at its first decorator.
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        self._function = (first, node.end_lineno or node.lineno)
        self._between_calls(node)
        self.generic_visit(node)
        self._function = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        """Visit an assignment, which may make several locks: `a, b = Lock(), Lock()`, `a = b = Lock()`."""
        for target in node.targets:
            self._made(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit an annotated assignment, also that of a dataclass: `guard: Lock = field(default_factory=Lock)`."""
        if node.value is not None:
            self._made(node.target, node.value)
        self.generic_visit(node)

    def _made(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, of in zip(target.elts, value.elts, strict=False):
                self._made(one, of)
            return
        lock = self._named(target)
        if lock is not None and any(map(_makes_a_lock, _within(value))):
            self.made.add(lock.name)

    def visit_With(self, node: ast.With) -> None:
        """Visit a `with`, which may enter several locks."""
        for number, item in enumerate(node.items):
            lock = self._named(item.context_expr)
            if lock is None:
                continue
            for line in range(item.context_expr.lineno, (item.context_expr.end_lineno or 0) + 1):
                self.taken.setdefault(line, []).append(lock)
            # The same `with` enters the rest with the lock, too.
            rest = [one.context_expr for one in node.items[number + 1 :]]
            first, last = (rest or node.body)[0].lineno, node.body[-1].end_lineno or 0
            self.guards.append(_Guard(lock, first, last, self._function))
        self.generic_visit(node)

    def _between_calls(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        acquired: dict[Lock, int] = {}
        released: dict[Lock, int] = {}
        for node in _own_nodes(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                lock = self._named(node.func.value)
                if lock is not None and node.func.attr == "acquire":
                    self.taken.setdefault(node.lineno, []).append(lock)
                    acquired[lock] = min(node.end_lineno or node.lineno, acquired.get(lock, node.lineno))
                elif lock is not None and node.func.attr == "release":
                    released[lock] = max(node.lineno, released.get(lock, 0))
        for lock, first in acquired.items():
            if released.get(lock, 0) > first:
                self.guards.append(_Guard(lock, first + 1, released[lock], self._function))

    def _named(self, node: ast.expr) -> Lock | None:
        """Return the lock that an expression names; None if it has no name."""
        called = ""
        while isinstance(node, ast.Subscript | ast.Call):
            called = "()" if isinstance(node, ast.Call) else called
            node = node.value if isinstance(node, ast.Subscript) else node.func
        if isinstance(node, ast.Name):
            return Lock(node.id + called)
        if not isinstance(node, ast.Attribute):
            return None
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        return Lock(node.attr + called, self._owner if own else "")

    def _root(self, name: str) -> str:
        seen = {name}
        while (base := self._bases.get(name, "")) in self._bases and base not in seen:
            seen.add(base)
            name = base
        return name


def _within(value: ast.expr) -> Iterator[ast.expr]:
    """Yield a value, or the elements of a list, a tuple or a dict."""
    if isinstance(value, ast.Tuple | ast.List):
        yield from value.elts
    elif isinstance(value, ast.Dict):
        yield from value.values
    elif isinstance(value, ast.ListComp):
        yield value.elt
    elif isinstance(value, ast.DictComp):
        yield value.value
    else:
        yield value


def _makes_a_lock(value: ast.expr) -> bool:
    """Tell whether a value is a new lock, or a default that makes one: `Lock()`, `field(default_factory=Lock)`."""
    if not isinstance(value, ast.Call):
        return False
    makers = [value.func, *(one.value for one in value.keywords if one.arg == "default_factory"), *value.args[:1]]
    names = [
        one.attr if isinstance(one, ast.Attribute) else one.id if isinstance(one, ast.Name) else "" for one in makers
    ]
    return names[0] in _MAKERS or (names[0] in {"field", "defaultdict"} and not _MAKERS.isdisjoint(names[1:]))


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions that are defined in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _own_nodes(node)
