"""The lines of a source that take a lock, and those that run with it."""

import ast
import tracemalloc

import pytest

from headway.traces.calls import takes_a_lock
from headway.traces.frames import Frame
from headway.traces.guards import Lock, Stands, locks_taken, stands
from headway.traces.syntax import blocks

SOURCE = """\
import threading

class Base:
    def __init__(self):
        self._lock = threading.Lock()

    def get(self):
        with self._lock:
            value = self.load()
        return value

class Store(Base):
    def save(self):
        self._lock.acquire()
        try:
            self.flush()
        finally:
            self._lock.release()
        self.tell()

class Other:
    def get(self):
        with self._lock, open("x") as file:
            return file.read()

def both(store, table):
    with (
        table.guard,
        store._lock,
    ):
        def later():
            return 1
        return later
    return None

def only_acquires(lock):
    lock.acquire()
    return lock

async def awaits(lock):
    async with lock:
        return 1

def tries(lock):
    while not lock.acquire(blocking=False):
        pause()
    work()
    lock.release()
    rest()

def early(lock):
    lock.acquire()
    if done:
        lock.release()
        return early_out
    more()
    lock.release()
    return late_out

def spans(lock):
    with span():
        try:
            lock.acquire()
        except Broken:
            raise
        else:
            report_got()
    try:
        spanned_work()
    finally:
        lock.release()
    spanned_rest()

def sometimes(lock):
    if wanted:
        lock.acquire()
    elsewhere()
    lock.release()

@contextmanager
def transaction(store):
    with store.guard_lock:
        yield

def uses():
    with transaction(1):
        commit()

def again(one, two):
    with one.node_lock:
        with two.node_lock:
            pass

def stacked(lock, other):
    with open("x") as file, contextlib.ExitStack() as stack:
        before_it()
        stack.enter_context(lock)
        if wanted:
            stack.enter_context(other.some_lock)
        stacked_work()
        file.enter_context(other.third_lock)
        more_work()
    after_it()

@staticmethod
def decorated(locks):
    with locks[0]:
        pass
    return locks
"""
OF_STORE, OF_OTHER, FREE = Lock("_lock", "Base"), Lock("_lock", "Other"), Lock("_lock")


@pytest.fixture
def at(tmp_path):
    """Return a function that returns the frame of the line with a text; `first` has the text of the function's first line."""
    file = tmp_path / "app.py"
    file.write_text(SOURCE)
    lines = SOURCE.splitlines()

    def find(text, first="", after=0):
        number = next(one for one in range(after, len(lines)) if text in lines[one]) + 1
        begins = next((one for one in range(len(lines)) if first and first in lines[one]), 0) + 1
        return Frame(str(file), number, "f", begins)

    return find


@pytest.mark.parametrize(
    ("line", "locks"),
    [
        ("with self._lock:", (OF_STORE,)),
        ("self._lock.acquire()", (OF_STORE,)),
        ("with self._lock, open", (OF_OTHER, Lock("open()"))),
        ("table.guard,", (Lock("guard"),)),
        ("store._lock,", (FREE,)),
        ("    lock.acquire()", (Lock("lock"),)),
        ("with locks[0]:", (Lock("locks", many=True),)),
        ("async with lock:", ()),
        ("value = self.load()", ()),
    ],
)
def test_a_line_takes_the_locks_that_it_enters(at, line, locks):
    """A `with`, also one of several lines, and a call of `acquire()` take locks; `async with` takes none of threads."""
    frame = at(line, after=34 if line.startswith("    lock") else 0)

    assert locks_taken(frame) == locks


def test_a_global_list_of_locks_is_not_one_lock(tmp_path):
    """A thread that has one lock of a list or dict may not have the one that another thread waits for."""
    file = tmp_path / "app.py"
    file.write_text(
        "import threading\nlocks = {}\none = threading.Lock()\nwith locks['a']:\n    pass\nwith one:\n    pass\n"
    )
    taken = [locks_taken(Frame(str(file), line, "<module>", 1)) for line in (4, 6)]

    assert [[lock.is_one for lock in locks] for locks in taken] == [[False], [True]]


NAMES = """\
import threading
lock = threading.Lock()
def of_the_module():
    with lock: pass  # the file's
def declared():
    global lock
    lock = threading.Lock()
    with lock: pass  # the file's
def parameter(lock):
    with lock: pass  # any
def decorator(function):
    lock = threading.Lock()
    def wrapper(*args):
        with lock: pass  # decorator()
    with lock: pass  # decorator()
    return wrapper
def assigned(key):
    lock = lock_of(key)
    lock.acquire()  # any
    lock.release()
def either(key):
    lock = threading.Lock()
    if key:
        lock = lock_of(key)
    with lock: pass  # any
def bound(*locks):
    for lock in locks:
        with lock: pass  # any
def imported():
    from locks import lock
    with lock: pass  # any
def others():
    every = [lock for lock in list_of(lambda lock: 1)]
    def inner(lock):
        return lock
    with lock: pass  # the file's
def matched(value):
    match value:
        case {"lock": lock}:
            with lock: pass  # any
def rebound():
    lock = None
    def inner():
        nonlocal lock
        with lock: pass  # any
class Some:
    def method(self):
        with lock: pass  # the file's
"""


def test_a_name_is_that_of_the_innermost_function_that_binds_it(tmp_path):
    """A variable or a parameter of a function has nothing to do with a global variable of its name."""
    file = tmp_path / "app.py"
    file.write_text(NAMES)
    owners = {"the file's": str(file), "any": "", "decorator()": f"decorator() {file}"}
    lines = [(number, text.partition("  # ")[2]) for number, text in enumerate(NAMES.splitlines(), 1)]
    wanted = {number: (Lock("lock", owners[whose]),) for number, whose in lines if whose}

    assert {number: locks_taken(Frame(str(file), number, "f")) for number in wanted} == wanted


def test_a_lock_may_be_that_of_a_parameter():
    """A function may be called with any lock, and an object may be given one that a function makes for itself."""
    of_file, of_class, of_function, of_any = (Lock("lock", one) for one in ("/app.py", "Some", "main() /app.py", ""))

    assert all(of_any.may_be(one) for one in (of_file, of_class, of_function))
    assert of_class.may_be(of_function)
    assert not of_file.may_be(of_function)
    assert not of_file.may_be(of_class)
    assert [one.is_one for one in (of_file, of_class, of_function, of_any)] == [True, False, False, False]


def test_a_line_within_a_with_of_several_lines_takes_a_lock(at):
    """The frame of a thread that enters such a lock is at the lock's own line, which has no word of a `with`."""
    assert takes_a_lock(at("store._lock,"))
    assert not takes_a_lock(at("table.guard,"))  # nothing tells that this is one


@pytest.mark.parametrize(
    ("line", "function", "lock", "relation"),
    [
        ("value = self.load()", "def get", OF_STORE, Stands.INSIDE),
        ("return value", "def get", OF_STORE, Stands.OUTSIDE),
        ("with self._lock:", "def get", OF_STORE, Stands.TAKES),
        ("self.flush()", "def save", OF_STORE, Stands.INSIDE),
        ("self.tell()", "def save", OF_STORE, Stands.OUTSIDE),
        ("self.flush()", "def save", OF_OTHER, Stands.UNKNOWN),
        ("return file.read()", "class Other", OF_OTHER, Stands.INSIDE),
        ("return file.read()", "class Other", OF_STORE, Stands.UNKNOWN),
        ("return file.read()", "class Other", FREE, Stands.INSIDE),
        ("return later", "def both", OF_STORE, Stands.INSIDE),
        ("store._lock,", "def both", Lock("guard"), Stands.INSIDE),
        ("return None", "def both", OF_STORE, Stands.OUTSIDE),
        ("return lock", "def only_acquires", Lock("lock"), Stands.UNKNOWN),
        ("return locks", "@staticmethod", Lock("locks"), Stands.OUTSIDE),
        ("pause()", "def tries", Lock("lock"), Stands.OUTSIDE),
        ("work()", "def tries", Lock("lock"), Stands.INSIDE),
        ("rest()", "def tries", Lock("lock"), Stands.OUTSIDE),
        ("return early_out", "def early", Lock("lock"), Stands.OUTSIDE),
        ("more()", "def early", Lock("lock"), Stands.INSIDE),
        ("return late_out", "def early", Lock("lock"), Stands.OUTSIDE),
        ("report_got()", "def spans", Lock("lock"), Stands.INSIDE),
        ("spanned_work()", "def spans", Lock("lock"), Stands.INSIDE),
        ("spanned_rest()", "def spans", Lock("lock"), Stands.OUTSIDE),
        ("elsewhere()", "def sometimes", Lock("lock"), Stands.UNKNOWN),
        ("commit()", "def uses", Lock("guard_lock"), Stands.INSIDE),
        ("with two.node_lock", "def again", Lock("node_lock"), Stands.AGAIN),
        ("before_it()", "def stacked", Lock("lock"), Stands.OUTSIDE),
        ("stacked_work()", "def stacked", Lock("lock"), Stands.INSIDE),
        ("stacked_work()", "def stacked", Lock("some_lock"), Stands.UNKNOWN),
        ("more_work()", "def stacked", Lock("third_lock"), Stands.UNKNOWN),
        ("after_it()", "def stacked", Lock("lock"), Stands.OUTSIDE),
    ],
)
def test_a_line_stands_inside_or_outside_of_a_lock(at, line, function, lock, relation):
    """The bodies of `with`, and lines between `acquire()` and `release()`, run with the lock; others of the function do not."""
    assert stands(at(line, function), lock) is relation


def test_a_file_that_was_edited_or_is_no_python_tells_nothing(at, tmp_path):
    """The lines of an edited file are not those that ran; a file that does not parse, or is not there, has no locks."""
    frame = at("value = self.load()", "def get")
    broken = tmp_path / "broken.py"
    broken.write_text("with lock:\n    def\n")

    assert stands(frame, OF_STORE, {frame.filename}) is Stands.UNKNOWN
    assert locks_taken(at("with self._lock:"), {frame.filename}) == ()
    for name in (str(broken), str(tmp_path / "none.py"), "<string>"):
        assert locks_taken(Frame(name, 1, "f")) == ()
        assert stands(Frame(name, 1, "f"), Lock("lock")) is Stands.UNKNOWN


def test_reading_a_source_prints_nothing(tmp_path, recwarn):
    """A warning about the program's own source, as that of an invalid escape sequence, is none of ours."""
    file = tmp_path / "app.py"
    file.write_text('PATTERN = "\\d"\nwith lock:\n    pass\n')

    assert locks_taken(Frame(str(file), 2, "f")) == (Lock("lock"),)
    assert not recwarn


def test_a_very_large_source_is_not_parsed(tmp_path):
    """The tree of a generated module of megabytes would take seconds and gigabytes."""
    file = tmp_path / "app.py"
    file.write_text("with lock:\n    pass\n" + "x = 1\n" * 200_000)

    assert locks_taken(Frame(str(file), 1, "f")) == ()


def test_each_statement_of_generated_code_is_read_a_few_times(tmp_path, monkeypatch):
    """A function of thousands of calls of `acquire()` would take hours if each of them read the whole function."""
    pairs = 300
    file = tmp_path / "app.py"
    file.write_text("def run(lock):\n" + "    lock.acquire()\n    work()\n    lock.release()\n    rest()\n" * pairs)
    seen, walk = [], ast.walk

    def counted(node):
        for one in walk(node):
            seen.append(one)
            yield one

    monkeypatch.setattr(ast, "walk", counted)
    last = 4 * pairs + 1

    assert [stands(Frame(str(file), line, "run", 1), Lock("lock")) for line in range(last - 3, last + 1)] == [
        Stands.TAKES,
        Stands.INSIDE,
        Stands.INSIDE,
        Stands.OUTSIDE,
    ]
    assert len(seen) < 200 * pairs


def test_the_blocks_of_generated_code_take_little_memory():
    """The statements that follow each of thousands of `with` are not copied."""
    tree = ast.parse("def run():\n" + "    with file(): pass\n" * 3_000)
    tracemalloc.start()
    try:
        found = list(blocks(tree.body[0]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [len(list(found[at])) for at in (0, 1, 3_000)] == [3_000, 3_000, 1]
    assert peak < 8 << 20


NESTED = """
if a:
    with lock: pass
elif b:
    with lock: pass
for one in a:
    with lock: pass
else:
    with lock: pass
try:
    with lock: pass
except OSError:
    with lock: pass
else:
    with lock: pass
finally:
    with lock: pass
match a:
    case 1:
        with lock: pass
with a:
    with lock: pass
class Holder:
    def method(self):
        def inner():
            with lock: pass
"""


@pytest.mark.parametrize("last", ["", "ready.wait()\n"])
def test_a_lock_is_found_in_each_kind_of_statement(tmp_path, last):
    """Expressions are looked at only in a file that waits for something; all statements are, in each file."""
    path = tmp_path / "nested.py"
    path.write_text(NESTED + last)

    lines = [number for number, line in enumerate(NESTED.splitlines(), 1) if "with lock" in line]
    found = [line for line in range(len(NESTED)) if Lock("lock") in locks_taken(Frame(str(path), line, "inner"))]
    assert len(lines) == 11
    assert found == lines
