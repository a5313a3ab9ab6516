"""Finds, in a program's source, the locks that it makes, the lines that take one, and the lines that run with one.

`with self._lock:` takes the lock `_lock` of its class, and its body runs with it. So do the lines after `lock.acquire()`, up to
`lock.release()`, and the body of a `with` that calls a context manager of the same file which yields with a lock. A lock is
known by its name: the trace does not tell two objects of one class apart.
"""

import ast
import functools
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeGuard, final

from headway.traces.frames import Frame
from headway.traces.sources import source

__all__ = ["Lock", "Stands", "is_kept", "is_reentrant", "locks_made", "locks_taken", "stands"]

_MAKERS = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock"})

_NO_OWNERS = frozenset(
    {"object", "ABC", "Thread", "Process", "Protocol", "Generic", "Exception", "TypedDict", "NamedTuple"}
)
"""Bases that many classes have, which are otherwise strangers to each other."""
_ACQUIRING = frozenset({"acquire", "__enter__", "__aenter__"})
"""Methods of a class around a lock that leave the release to another method of it."""
_LARGEST = 1 << 20
"""The largest source that is parsed, in bytes: a tree takes a hundred times the memory of its source."""


@final
@dataclass(frozen=True)
class Lock:
    """A lock, by the name that a line has for it.

    Attributes:
        name: The last part of the name: `_lock` for `self._lock`, `lock_of()` for `self.lock_of(key)`.
        owner: The class whose attribute it is (of classes that inherit from each other, the base), or the file whose
            global variable it is; "" if the line does not tell it.
        many: The name is that of a list or dict of locks: `locks[key]`.
    """

    name: str
    owner: str = ""
    many: bool = False

    @property
    def is_one(self) -> bool:
        """True if there is only one lock of this name: a global variable."""
        return self.owner.startswith("/") and not self.many

    def may_be(self, other: "Lock") -> bool:
        """Tell whether both may be names of one lock."""
        return self.name == other.name and (self.owner == other.owner or not self.owner or not other.owner)


class Stands(Enum):
    """The relation of a line to a lock."""

    TAKES = "takes"
    """The thread takes the lock there."""
    AGAIN = "again"
    """The thread takes the lock there, at a line that runs with a lock of that name: of another object, or the same one."""
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
    taken_at: int
    """The line that takes the lock."""
    first: int
    last: int
    function: tuple[int, int]


@final
@dataclass(frozen=True)
class _Guards:
    """The locks of one file: those that lines take, by line, and the lines that run with one."""

    taken: dict[int, tuple[Lock, ...]]
    guards: tuple[_Guard, ...]
    made: dict[str, bool]
    """The names of locks that the file makes, and whether the same thread may acquire such a lock again."""
    kept: frozenset[Lock]
    """The locks that a function acquires and does not release, which is not a method with the name of that."""


_NONE = _Guards({}, (), {}, frozenset())


def is_reentrant(frame: Frame, lock: Lock) -> bool:
    """Tell whether a thread that has a lock may acquire it again, or whether the file of a line does not tell that."""
    return _guards(frame.filename).made.get(lock.name, True)


def is_kept(filename: str, lock: Lock) -> bool:
    """Tell whether a function of a file acquires a lock of that name and leaves the release to others.

    The file does not tell then which lines run with the lock.
    """
    return any(one.may_be(lock) for one in _guards(filename).kept)


def locks_made(filename: str) -> frozenset[str]:
    """Return the names of the locks that a file makes: `guard` of `self.guard = threading.Lock()`.

    A name for a list or dict of locks is one of them. The set is empty if the file cannot be read.
    """
    return frozenset(_guards(filename).made)


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
        others = [one for one in mine if one.taken_at != frame.line]
        return Stands.AGAIN if any(one.first <= frame.line <= one.last for one in others) else Stands.TAKES
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
        return _NONE
    finder = _Finder(tree, filename)
    try:
        finder.visit(tree)
    except RecursionError:
        return _NONE
    taken = {line: tuple(dict.fromkeys(locks)) for line, locks in finder.taken.items()}
    guards = [*finder.guards, *(one for name, one in finder.calls if name in finder.managers)]
    named = [replace(one, lock=finder.managers.get(one.lock.name, one.lock)) for one in guards]
    named = [replace(one, lock=finder.aliases.get(one.lock, one.lock)) for one in named]
    return _Guards(taken, tuple(named), finder.made, frozenset(finder.kept))


class _MethodCall(ast.Call):
    """A call of a method: a type for the checker only."""

    func: ast.Attribute


@final
class _Finder(ast.NodeVisitor):
    """Collects the locks of a module."""

    def __init__(self, tree: ast.Module, filename: str) -> None:
        classes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
        self._bases = {one.name: next(filter(None, map(_last_name, one.bases)), "") for one in classes}
        self._filename = filename
        self._globals = {name for one in tree.body for name in _assigned(one)}
        self._owner = ""
        self._function = (0, 0)
        self.taken: dict[int, list[Lock]] = {}
        self.guards: list[_Guard] = []
        self.made: dict[str, bool] = {}
        self.kept: set[Lock] = set()
        self.managers: dict[str, Lock] = {}
        """The context managers of the file that yield with a lock, by name."""
        self.aliases: dict[Lock, Lock] = {}
        """The lock that a class's own method `acquire()` takes, by what `self.acquire()` names."""
        self.calls: list[tuple[str, _Guard]] = []
        """The bodies of `with` that call something, by its name."""

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
        self._after_acquires(node)
        if node.name == "acquire" and self._owner:
            taken = [
                lock for line, locks in self.taken.items() for lock in locks if node.lineno <= line <= self._function[1]
            ]
            self.aliases |= {Lock("self", self._owner): one for one in taken[:1]}
        if any(_last_name(one) in {"contextmanager", "asynccontextmanager"} for one in node.decorator_list):
            locks = [self._named(one.items[0].context_expr) for one in _own_nodes(node) if _yields(one)]
            self.managers |= {f"{node.name}()": lock for lock in locks if lock is not None}
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
        makers = {_maker(one) for one in _within(value)} - {""}
        if lock is not None and makers:
            # A condition has an RLock of its own.
            self.made[lock.name] = bool(makers & {"RLock", "Condition"}) or self.made.get(lock.name, False)

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
            self.guards.append(_Guard(lock, item.context_expr.lineno, first, last, self._function))
            if isinstance(item.context_expr, ast.Call):
                self.calls.append((lock.name, self.guards[-1]))
        self.generic_visit(node)

    def _after_acquires(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Add the lines that run with a lock after a call of `acquire()`, by the blocks of a function."""
        for block, after in _blocks(function):
            for at, statement in enumerate(block):
                for call in _own_calls(statement, "acquire"):
                    lock = self._named(call.func.value)
                    if lock is None:
                        continue
                    if lock.name == "self":  # a method of the class's own
                        lock = Lock("self", self._owner)
                    else:
                        self.taken.setdefault(call.lineno, []).append(lock)
                    following = [*block[at + 1 :], *after]
                    self._until_release(function, lock, call.lineno, _with_it(statement, call, following))

    def _until_release(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, lock: Lock, at_line: int, rest: list[ast.stmt]
    ) -> None:
        """Add the lines of statements after an `acquire()`, up to the `release()` in them."""
        released = [self._released_in(one, lock) for one in rest]
        in_function = self._released_in(function, lock)
        if not in_function and function.name not in _ACQUIRING:
            self.kept.add(lock)
        first = rest[0].lineno if rest else 0
        if not rest or not any(line > first for line in in_function):
            return
        for at, (statement, lines) in enumerate(zip(rest, released, strict=True)):
            if not lines:
                continue
            self.guards.append(_Guard(lock, at_line, first, lines[0], self._function))
            # A release on one of several ways is followed by another one.
            if isinstance(statement, ast.Expr | ast.Try) or not any(released[at + 1 :]):
                return
            first = rest[at + 1].lineno
        self.guards.append(_Guard(lock, at_line, first, rest[-1].end_lineno or first, self._function))

    def _released_in(self, node: ast.AST, lock: Lock) -> list[int]:
        """Return the lines in which a lock is released, in order."""
        calls = [one for one in ast.walk(node) if _calls(one, "release")]
        own = Lock("self", self._owner)
        named = [(one.lineno, self._named(one.func.value)) for one in calls]
        return sorted(line for line, one in named if one == lock or (lock == own and one == Lock("self")))

    def _named(self, node: ast.expr) -> Lock | None:
        """Return the lock that an expression names; None if it has no name."""
        called, many = "", False
        while isinstance(node, ast.Subscript | ast.Call):
            called = "()" if isinstance(node, ast.Call) else called
            many = many or isinstance(node, ast.Subscript)
            node = node.value if isinstance(node, ast.Subscript) else node.func
        if isinstance(node, ast.Name):
            return Lock(node.id + called, self._filename if node.id in self._globals and not called else "", many)
        if not isinstance(node, ast.Attribute):
            return None
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        return Lock(node.attr + called, self._owner if own else "", many)

    def _root(self, name: str) -> str:
        seen = {name}
        while (base := self._bases.get(name, "")) and base not in seen and base not in _NO_OWNERS:
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


def _maker(value: ast.expr) -> str:
    """Return what makes a new lock, or a default that is one: `Lock` of `Lock()`, of `field(default_factory=Lock)`; else ""."""
    if not isinstance(value, ast.Call):
        return ""
    makers = [value.func, *(one.value for one in value.keywords if one.arg == "default_factory"), *value.args[:1]]
    names = list(map(_last_name, makers))
    made = names[1:] if names[0] in {"field", "defaultdict"} else names[:1]
    return next((one for one in made if one in _MAKERS), "")


def _last_name(node: ast.expr) -> str:
    """Return the last part of a name: `Lock` of `threading.Lock`; "" of what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets += [statement.target] if isinstance(statement, ast.AnnAssign) else []
    for one in targets:
        for each in one.elts if isinstance(one, ast.Tuple) else [one]:
            if isinstance(each, ast.Name):
                yield each.id


def _yields(node: ast.AST) -> TypeGuard[ast.With]:
    """Tell whether a node is a `with` that yields in its body."""
    return isinstance(node, ast.With) and any(
        isinstance(one, ast.Yield) for each in node.body for one in ast.walk(each)
    )


def _calls(node: ast.AST, method: str) -> TypeGuard[_MethodCall]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _blocks(function: ast.AST) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    """Yield the lists of statements of a function, without those of functions that are defined in it.

    Beside the body of a `with` or `try` are the statements that run after it; beside other lists is nothing.
    """
    follows: dict[ast.AST, list[ast.stmt]] = {}
    for node in (function, *_own_nodes(function)):  # a block comes before those in it
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            after = follows.get(node, []) if name == "body" else []
            for at, one in enumerate(block):
                if isinstance(one, ast.With | ast.AsyncWith | ast.Try):
                    at_end = [*one.orelse, *one.finalbody] if isinstance(one, ast.Try) else []
                    follows[one] = [*at_end, *block[at + 1 :], *after]
            yield block, after


def _own_calls(statement: ast.stmt, method: str) -> Iterator[_MethodCall]:
    """Yield the calls of a method in a statement, without those in its blocks."""
    if isinstance(statement, ast.If | ast.While):
        parts: list[ast.AST] = [statement.test]
    elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Return | ast.Assert):
        parts = [statement]
    else:
        return
    yield from (one for part in parts for one in ast.walk(part) if _calls(one, method))


def _with_it(statement: ast.stmt, call: ast.Call, following: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that run after an `acquire()` that got the lock."""
    if isinstance(statement, ast.If | ast.While):
        if isinstance(statement.test, ast.UnaryOp) and isinstance(statement.test.op, ast.Not):
            return [*statement.orelse, *following]  # the body is for a lock that could not be had
        return statement.body
    # An `acquire()` that does not wait, or not for good, may have failed: what follows tells by its result.
    tries = bool(call.args or call.keywords) and not isinstance(statement, ast.Expr)
    return [] if tries else following


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions that are defined in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _own_nodes(node)
