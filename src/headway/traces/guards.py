"""Finds, in a program's source, the locks that it makes, the lines that take one, and the lines that run with one.

`with self._lock:` takes the lock `_lock` of its class, and its body runs with it. So do the lines after `lock.acquire()`, up to
`lock.release()`, the body of a `with` that calls a context manager of the same file which yields with a lock, and the lines after
`stack.enter_context(lock)`. A lock is known by its name: the trace does not tell two objects of one class apart. The lock of a
condition is the one that it was given: `Condition(lock)`.
"""

import ast
import functools
import itertools
import warnings
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

from headway.traces.frames import Frame
from headway.traces.sources import source
from headway.traces.syntax import (
    Following,
    assigned,
    assignments,
    blocks,
    is_call_of,
    last_name,
    maker,
    own_calls,
    own_nodes,
    parts,
    statements,
    variables,
    with_it,
    within,
    yields,
)

__all__ = [
    "Lock",
    "Releases",
    "Stands",
    "is_certain",
    "is_kept",
    "is_reentrant",
    "locks_made",
    "locks_taken",
    "releases",
    "stands",
]

_NO_OWNERS = frozenset(
    {"object", "ABC", "Thread", "Process", "Protocol", "Generic", "Exception", "TypedDict", "NamedTuple"}
)
"""Bases that many classes have, which are otherwise strangers to each other."""
_ACQUIRING = frozenset({"acquire", "__enter__", "__aenter__"})
"""Methods of a class around a lock that leave the release to another method of it."""
_LARGEST = 1 << 20
"""The largest source that is parsed, in bytes: a tree takes a hundred times the memory of its source."""
_MOST_FOLLOWING = 500
"""The statements after an `acquire()` in which its `release()` is looked for; generated code may have thousands."""


@final
@dataclass(frozen=True)
class Lock:
    """A lock, by the name that a line has for it.

    Attributes:
        name: The last part of the name: `_lock` for `self._lock`, `lock_of()` for `self.lock_of(key)`.
        owner: The class whose attribute it is (of classes that inherit from each other, the base), the file whose
            global variable it is, or `NAME() FILE` of the function that makes it for a variable of its own; "" if the
            line does not tell it, as where the name is that of a parameter.
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
        """Tell whether both may be names of one lock. An object may be given the lock that a function makes."""
        if self.name != other.name or self.owner == other.owner or not self.owner or not other.owner:
            return self.name == other.name
        is_given = ("()" in self.owner) != ("()" in other.owner)
        return is_given and not (self.owner.startswith("/") or other.owner.startswith("/"))


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


class Releases(Enum):
    """Whether a thread that waits for a condition has released a lock."""

    NO = "no"
    PERHAPS = "perhaps"
    """The source does not tell which lock the condition has."""
    YES = "yes"


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
    waits: dict[int, tuple[Lock, ...]]
    """What lines wait for by `NAME.wait()` or `NAME.wait_for()`, such as a condition, by its name."""
    conditions: dict[Lock, Lock | None]
    """The lock of each condition that the file makes, itself if it has its own; None: it may be any."""

    def lock_of(self, condition: Lock) -> Lock | None:
        """Return the lock of a condition; None if the file does not tell it."""
        if condition in self.conditions:
            return self.conditions[condition]
        found = {lock for one, lock in self.conditions.items() if one.may_be(condition)}
        lock = found.pop() if len(found) == 1 else None
        return lock and replace(lock, owner="", many=condition.many)  # that of some object of a class

    def with_lock(self, named: Lock) -> Lock:
        """Return the lock that a thread takes if it takes what has a name: of a condition, the one that it was given."""
        return self.lock_of(named) or named


_NONE = _Guards({}, (), {}, frozenset(), {}, {})


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


def releases(frame: Frame, lock: Lock, changed: Collection[str] = ()) -> Releases:
    """Tell whether a line that waits for a condition (`NAME.wait()`) releases a lock meanwhile."""
    found = _NONE if frame.filename in changed else _guards(frame.filename)
    waits = found.waits.get(frame.line, ())
    released = found.lock_of(waits[0]) if len(waits) == 1 else None
    around = [one.lock for one in found.guards if one.first <= frame.line <= one.last]
    if released is None and waits and waits[0] in around:
        released = waits[0]  # `with NAME: NAME.wait()`
    if released is None or (released.may_be(lock) and not (released == lock and lock.owner)):
        return Releases.PERHAPS
    return Releases.YES if released == lock else Releases.NO


def is_certain(frame: Frame, lock: Lock) -> bool:
    """Tell whether a line that takes a lock of a name, or runs with one, does so with exactly this lock.

    A parameter of that name may be another one.
    """
    found = _guards(frame.filename)
    around = [one.lock for one in found.guards if one.first <= frame.line <= one.last]
    return all(one == lock for one in (*around, *found.taken.get(frame.line, ())) if one.may_be(lock))


@functools.lru_cache(maxsize=256)
def _guards(filename: str) -> _Guards:
    """Return the locks of a file. A very large file, or one that is no Python of this interpreter's version, has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program's own source, as an invalid escape sequence
            text = source(filename, _LARGEST)
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NONE
    try:
        finder = _Finder(tree, filename, text)
        finder.visit(tree)
    except RecursionError:
        return _NONE
    waits = {line: tuple(dict.fromkeys(names)) for line, names in finder.waits.items()}
    guards = [*finder.guards, *(one for name, one in finder.calls if name in finder.managers)]
    named = [replace(one, lock=finder.managers.get(one.lock.name, one.lock)) for one in guards]
    named = [replace(one, lock=finder.aliases.get(one.lock, one.lock)) for one in named]
    found = replace(_NONE, made=finder.made, waits=waits, conditions=finder.conditions)
    return replace(
        found,
        taken={line: tuple(dict.fromkeys(map(found.with_lock, locks))) for line, locks in finder.taken.items()},
        guards=tuple(replace(one, lock=found.with_lock(one.lock)) for one in named),
        kept=frozenset(map(found.with_lock, finder.kept)),
    )


@final
class _Finder(ast.NodeVisitor):
    """Collects the locks of a module."""

    def __init__(self, tree: ast.Module, filename: str, text: str) -> None:
        # Most files neither acquire a lock by a call nor wait for a condition: their expressions need no look.
        self._acquires = "acquire" in text
        self._waits = "wait" in text
        classes = [one for one in statements(tree) if isinstance(one, ast.ClassDef)]
        self._bases = {one.name: next(filter(None, map(last_name, one.bases)), "") for one in classes}
        self._filename = filename
        self._globals = {name for one in tree.body for name in assigned(one)}
        self._owner = ""
        self._function = (0, 0)
        self._scopes: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        """The functions around a node, the outermost first."""
        self._variables: dict[ast.AST, dict[str, bool]] = {}
        """The variables of functions whose names a lock was looked for in."""
        self.taken: dict[int, list[Lock]] = {}
        self.guards: list[_Guard] = []
        self.made: dict[str, bool] = {}
        self.kept: set[Lock] = set()
        self.waits: dict[int, list[Lock]] = {}
        self.conditions: dict[Lock, Lock | None] = {}
        self.managers: dict[str, Lock] = {}
        """The context managers of the file that yield with a lock, by name."""
        self.aliases: dict[Lock, Lock] = {}
        """The lock that a class's own method `acquire()` takes, by what `self.acquire()` names."""
        self.calls: list[tuple[str, _Guard]] = []
        """The bodies of `with` that call something, by its name."""
        self._released: dict[ast.AST, dict[Lock | None, list[int]]] = {}
        """The lines in which a function, or one of its statements, releases locks: found once for all calls of `acquire()`."""

    def generic_visit(self, node: ast.AST) -> None:
        """Visit what a node consists of; of expressions only a call of `wait()` tells anything."""
        if self._waits:
            super().generic_visit(node)
        else:
            for one in parts(node):
                self.visit(one)

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
        self._scopes.append(node)
        if self._acquires:
            self._after_acquires(node)
        if node.name == "acquire" and self._owner:
            taken = [
                lock for line, locks in self.taken.items() for lock in locks if node.lineno <= line <= self._function[1]
            ]
            self.aliases |= {Lock("self", self._owner): one for one in taken[:1]}
        if any(last_name(one) in {"contextmanager", "asynccontextmanager"} for one in node.decorator_list):
            locks = [self._named(one.items[0].context_expr) for one in own_nodes(node) if yields(one)]
            self.managers |= {f"{node.name}()": lock for lock in locks if lock is not None}
        self.generic_visit(node)
        self._scopes.pop()
        self._function = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        """Visit an assignment, which may make several locks."""
        for target, value in assignments(node):
            self._made(target, value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit an annotated assignment, also that of a dataclass: `guard: Lock = field(default_factory=Lock)`."""
        for target, value in assignments(node):
            self._made(target, value)
        self.generic_visit(node)

    def _made(self, target: ast.expr, value: ast.expr) -> None:
        makers = {maker(one) for one in within(value)} - {""}
        lock = self._named(target) if makers else None
        if lock is not None:
            # A condition has an RLock of its own.
            self.made[lock.name] = bool(makers & {"RLock", "Condition"}) or self.made.get(lock.name, False)
            if isinstance(value, ast.Call) and last_name(value.func) == "Condition":
                of = self._given(lock, value)
                self.conditions[lock] = of if self.conditions.get(lock, of) == of else None

    def _given(self, condition: Lock, made: ast.Call) -> Lock | None:
        """Return the lock of a condition that is made; None if it may be any, as a parameter is."""
        given = [*made.args, *(one.value for one in made.keywords)]
        if not given or isinstance(given[0], ast.Call | ast.Constant):
            return condition
        lock = self._named(given[0])
        if lock is None or not lock.owner:
            return None
        self.made.setdefault(lock.name, True)
        return lock

    def visit_Call(self, node: ast.Call) -> None:
        """Visit a call, which may wait for a condition."""
        if is_call_of(node, "wait") or is_call_of(node, "wait_for"):
            name = self._named(node.func.value)
            for line in {node.lineno, node.func.end_lineno or node.lineno}:
                self.waits.setdefault(line, []).extend(filter(None, [name]))
        self.generic_visit(node)

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
        self._enter(node)
        self.generic_visit(node)

    def _enter(self, node: ast.With) -> None:
        """Add the lines of a `with ExitStack() as stack` that run with a lock after `stack.enter_context(lock)`."""
        stacks = {last_name(one.optional_vars) for one in node.items if one.optional_vars and _is_an_exit_stack(one)}
        for statement in node.body:
            for call in own_calls(statement, "enter_context"):
                lock = self._named(call.args[0]) if call.args and last_name(call.func.value) in stacks else None
                if lock is not None and not isinstance(statement, ast.If | ast.While):
                    first, last = (statement.end_lineno or 0) + 1, node.body[-1].end_lineno or 0
                    self.guards.append(_Guard(lock, call.lineno, first, last, self._function))

    def _after_acquires(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Add the lines that run with a lock after a call of `acquire()`, by the blocks of a function."""
        self._released.clear()
        for block in blocks(function):
            for at, statement in enumerate(block.block, 1):
                for call in own_calls(statement, "acquire"):
                    lock = self._named(call.func.value)
                    if lock is None:
                        continue
                    if lock.name == "self":  # a method of the class's own
                        lock = Lock("self", self._owner)
                    else:
                        self.taken.setdefault(call.lineno, []).append(lock)
                    following = Following(block.block, at, block.after)
                    self._until_release(function, lock, call.lineno, with_it(statement, call, following))

    def _until_release(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, lock: Lock, at_line: int, following: Following
    ) -> None:
        """Add the lines of statements after an `acquire()`, up to the `release()` in them."""
        in_function = self._released_in(function, lock)
        if not in_function and function.name not in _ACQUIRING:
            self.kept.add(lock)
        rest = list(itertools.islice(following, _MOST_FOLLOWING))
        first = rest[0].lineno if rest else 0
        if not rest or not in_function or in_function[-1] <= first:
            return
        for at, statement in enumerate(rest, 1):
            lines = self._released_in(statement, lock)
            if not lines:
                continue
            self.guards.append(_Guard(lock, at_line, first, lines[0], self._function))
            # A release on one of several ways is followed by another one.
            if isinstance(statement, ast.Expr | ast.Try) or not any(self._released_in(one, lock) for one in rest[at:]):
                return
            first = rest[at].lineno
        self.guards.append(_Guard(lock, at_line, first, rest[-1].end_lineno or first, self._function))

    def _released_in(self, node: ast.AST, lock: Lock) -> list[int]:
        """Return the lines in which a lock is released, in order."""
        if node not in self._released:
            own, lines = Lock("self", self._owner), defaultdict[Lock | None, set[int]](set)
            for one in ast.walk(node):
                if is_call_of(one, "release"):
                    named = self._named(one.func.value)
                    lines[own if named == Lock("self") else named].add(one.lineno)
            self._released[node] = {of: sorted(found) for of, found in lines.items()}
        return self._released[node].get(lock, [])

    def _named(self, node: ast.expr) -> Lock | None:
        """Return the lock that an expression names; None if it has no name."""
        called, many = "", False
        while isinstance(node, ast.Subscript | ast.Call):
            called = "()" if isinstance(node, ast.Call) else called
            many = many or isinstance(node, ast.Subscript)
            node = node.value if isinstance(node, ast.Subscript) else node.func
        if isinstance(node, ast.Name):
            return Lock(node.id + called, "" if called else self._owner_of(node.id), many)
        if not isinstance(node, ast.Attribute):
            return None
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
        return Lock(node.attr + called, self._owner if own else "", many)

    def _owner_of(self, variable: str) -> str:
        """Return the owner of a variable: a function that makes the lock, or the file; "" if it may be any lock."""
        for function in reversed(self._scopes):
            if function not in self._variables:
                self._variables[function] = variables(function)
            own = self._variables[function]
            if variable in own:
                return f"{function.name}() {self._filename}" if own[variable] else ""
        return self._filename if variable in self._globals else ""

    def _root(self, name: str) -> str:
        seen = {name}
        while (base := self._bases.get(name, "")) and base not in seen and base not in _NO_OWNERS:
            seen.add(base)
            name = base
        return name


def _is_an_exit_stack(item: ast.withitem) -> bool:
    return isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) == "ExitStack"
