"""Reads the parts of a source's syntax tree that tell of locks: its variables, its blocks of statements, and its calls."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard, final

__all__ = [
    "Following",
    "MethodCall",
    "assigned",
    "assignments",
    "blocks",
    "is_call_of",
    "last_name",
    "maker",
    "own_calls",
    "own_nodes",
    "parts",
    "statements",
    "variables",
    "with_it",
    "within",
    "yields",
]

_MAKERS = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "allocate_lock"})

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


class MethodCall(ast.Call):
    """A call of a method: a type for the checker only."""

    func: ast.Attribute


@final
@dataclass(frozen=True)
class Following:
    """Statements that run one after the other: those of a block from an index on, and those that run after the block.

    A copy of them for each place in a block of thousands would be millions of statements.
    """

    block: list[ast.stmt]
    first: int = 0
    after: "Following | None" = None

    def __iter__(self) -> Iterator[ast.stmt]:
        one: Following | None = self
        while one is not None:
            yield from (one.block[at] for at in range(one.first, len(one.block)))
            one = one.after


def within(value: ast.expr) -> Iterator[ast.expr]:
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


def maker(value: ast.expr) -> str:
    """Return what makes a new lock, or a default that is one: `Lock` of `Lock()`, of `field(default_factory=Lock)`; else ""."""
    if not isinstance(value, ast.Call):
        return ""
    makers = [value.func, *(one.value for one in value.keywords if one.arg == "default_factory"), *value.args[:1]]
    names = list(map(last_name, makers))
    made = names[1:] if names[0] in {"field", "defaultdict"} else names[:1]
    return next((one for one in made if one in _MAKERS), "")


def last_name(node: ast.expr) -> str:
    """Return the last part of a name: `Lock` of `threading.Lock`; "" of what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module assigns."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets += [statement.target] if isinstance(statement, ast.AnnAssign) else []
    for one in targets:
        for each in one.elts if isinstance(one, ast.Tuple) else [one]:
            if isinstance(each, ast.Name):
                yield each.id


def assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement assigns to what; it may be several: `a, b = Lock(), Lock()`, `a = b = Lock()`."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _pairs(target, node.value)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, of in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, of)
    else:
        yield target, value


def variables(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, bool]:
    """Return the names of a function's own variables, and whether the function makes each of them a new lock.

    Its parameters are some of them; a variable that it declares as `global` or `nonlocal` is none.
    """
    bound, made, declared = Counter[str](), Counter[str](), set[str]()
    for node in _in_scope(function):
        bound.update(_bound_by(node))
        made.update(to.id for to, value in assignments(node) if isinstance(to, ast.Name) and maker(value))
        declared.update(node.names if isinstance(node, ast.Global | ast.Nonlocal) else ())
    return {name: made[name] == count for name, count in bound.items() if name not in declared}


def _in_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes whose names are a function's own: a function, a class or a comprehension in it has its own names."""
    for one in ast.iter_child_nodes(node):
        yield one
        if not isinstance(one, _SCOPES):
            yield from _in_scope(one)


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds."""
    if isinstance(node, ast.Name):
        names = [node.id] if isinstance(node.ctx, ast.Store | ast.Del) else []
    elif isinstance(node, ast.arg):
        names = [node.arg]
    elif isinstance(node, ast.alias):
        names = [(node.asname or node.name).partition(".")[0]]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
        names = [node.name or ""]
    else:  # a pattern of `match`
        names = [getattr(node, "rest", None) or getattr(node, "name", None) or ""]
    yield from filter(None, names)


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, and what holds further ones: its `except` and `case` parts; no expression."""
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        found = getattr(node, name, ())
        if isinstance(found, list):  # the body of a `lambda` or of `A if B else C` is an expression
            yield from found


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in a node, also those of functions and classes in it."""
    for one in parts(node):
        yield one
        yield from statements(one)


def yields(node: ast.AST) -> TypeGuard[ast.With]:
    """Tell whether a node is a `with` that yields in its body."""
    return isinstance(node, ast.With) and any(
        isinstance(one, ast.Yield) for each in node.body for one in ast.walk(each)
    )


def is_call_of(node: ast.AST, method: str) -> TypeGuard[MethodCall]:
    """Tell whether a node calls a method of a name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def blocks(function: ast.AST) -> Iterator[Following]:
    """Yield the lists of statements of a function, without those of functions that are defined in it.

    After the body of a `with` or `try` come the statements that run after it; after other lists comes nothing.
    """
    follows: dict[ast.AST, Following] = {}
    for node in (function, *own_nodes(function)):  # a block comes before those in it
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            after = follows.get(node) if name == "body" else None
            for at, one in enumerate(block, 1):
                if isinstance(one, ast.With | ast.AsyncWith | ast.Try):
                    at_end = [*one.orelse, *one.finalbody] if isinstance(one, ast.Try) else []
                    follows[one] = Following(at_end, 0, Following(block, at, after))
            yield Following(block, 0, after)


def own_calls(statement: ast.stmt, method: str) -> Iterator[MethodCall]:
    """Yield the calls of a method in a statement, without those in its blocks."""
    if isinstance(statement, ast.If | ast.While):
        parts: list[ast.AST] = [statement.test]
    elif isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.Return | ast.Assert):
        parts = [statement]
    else:
        return
    yield from (one for part in parts for one in ast.walk(part) if is_call_of(one, method))


def with_it(statement: ast.stmt, call: ast.Call, following: Following) -> Following:
    """Return the statements that run after an `acquire()` that got the lock."""
    if isinstance(statement, ast.If | ast.While):
        if isinstance(statement.test, ast.UnaryOp) and isinstance(statement.test.op, ast.Not):
            return Following(statement.orelse, 0, following)  # the body is for a lock that could not be had
        return Following(statement.body)
    # An `acquire()` that does not wait, or not for good, may have failed: what follows tells by its result.
    tries = bool(call.args or call.keywords) and not isinstance(statement, ast.Expr)
    return Following([]) if tries else following


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions that are defined in it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from own_nodes(node)
