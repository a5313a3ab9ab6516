"""Finds the kind of call that releases the GIL at a code location: a sleep, a lock, a receive, a send, or unknown.

A trace has the Python frame that made the call, not the C function. In the standard library, the frame tells enough. In
a program's own code, the text of the line tells the kind if the file exists; else only the length of the call tells it.
"""

import itertools
import os
import re
from collections.abc import Collection, Sequence
from enum import Enum

from headway.traces.frames import Frame
from headway.traces.guards import Lock, locks_made, locks_taken
from headway.traces.libraries import awaited_in, is_library, is_of_threads, module_of_threads
from headway.traces.sources import MOST_OF_A_LINE, rest_of_statement, source_line, words_in

__all__ = [
    "Call",
    "awaits_a_queue",
    "awaits_an_import",
    "call_at",
    "is_of_a_queue",
    "locks_at",
    "may_await_a_process",
    "may_await_a_thread",
    "sleep_ns_at",
    "takes_a_lock",
    "timeout_ns_at",
    "waits_for_good",
]


class Call(Enum):
    """The action of a call while the GIL is released."""

    SLEEP = "sleep"
    """It sleeps by a timer."""
    LOCK = "lock"
    """It waits for a lock, a queue, a condition or another thread's end: another thread of the program wakes it."""
    RECEIVE = "receive"
    """It receives from a peer."""
    SEND = "send"
    """It sends to a peer."""
    POLL = "poll"
    """It waits for any of many peers, or for a timer: an event loop."""
    RUN = "run"
    """It computes."""
    UNKNOWN = "unknown"


_LIBRARIES: dict[str, dict[str, Call]] = {
    "thread.py": {"_worker": Call.LOCK},
    "selectors.py": {"select": Call.POLL},
    "socket.py": {"accept": Call.RECEIVE, "readinto": Call.RECEIVE, "write": Call.SEND, "sendfile": Call.SEND},
    "ssl.py": {"read": Call.RECEIVE, "recv": Call.RECEIVE, "write": Call.SEND, "send": Call.SEND, "sendall": Call.SEND},
    "wasyncore.py": {"poll": Call.POLL, "poll2": Call.POLL, "recv": Call.RECEIVE, "send": Call.SEND},
}
"""By the name of a module of the standard library, or of a well-known one, and of its function."""

_WORDS: tuple[tuple[Call, re.Pattern[str]], ...] = (
    (Call.SLEEP, re.compile(r"\b(sleep|delayfunc)\(|\.wait_for\(")),
    (Call.RECEIVE, re.compile(r"\.(recv|recv_into|recvfrom|recvmsg|accept|readline|readinto|readexactly)\(")),
    (Call.SEND, re.compile(r"\.(send|sendall|sendto|sendmsg|flush)\(")),
    (Call.POLL, re.compile(r"\.(select|poll|epoll_wait)\(|\bselect\(")),
    (
        Call.LOCK,
        re.compile(
            r"\.(acquire|get|put|wait|join|result|notify)\(|\bwith\s+[\w.]*(lock|cond|mutex|sem)", re.IGNORECASE
        ),
    ),
    (
        Call.RUN,
        re.compile(
            r"\b(sha\d+|md5|blake2\w|hashlib|zlib|bz2|lzma|compress|decompress|crc32|scrypt|pbkdf2_hmac)\b|\bnp\.|\bnumpy\b|\.dot\(|\.sort\("
        ),
    ),
)


def call_at(frame: Frame | None, changed: Collection[str] = ()) -> Call:
    """Return the kind of the call that a frame makes. The lines of files in `changed` are not those of the trace."""
    if frame is None or not frame.filename:
        return Call.UNKNOWN
    if awaited_in(frame) is not None:
        return Call.LOCK
    is_known = is_library(frame) or not os.path.isabs(
        frame.filename
    )  # a program that was packed into one file has no folders
    known = _LIBRARIES.get(os.path.basename(frame.filename), {}) if is_known else {}
    function = frame.function.rsplit(".", 1)[-1]
    if function in known:
        return known[function]
    text = "" if frame.filename in changed else source_line(frame.filename, frame.line)
    found = {kind for kind, pattern in _WORDS if pattern.search(text)}
    if not found and takes_a_lock(frame, changed):  # by a name that only the file tells to be a lock's
        found.add(Call.LOCK)
    return found.pop() if len(found) == 1 else Call.UNKNOWN


def awaits_an_import(frame: Frame) -> bool:
    """Tell whether a thread waits there until another thread has imported a module (Lib/importlib/_bootstrap.py)."""
    return frame.filename.startswith("<frozen importlib") and frame.function == "_ModuleLock.acquire"


def may_await_a_process(frame: Frame) -> bool:
    """Tell whether the lock that a thread waits for at a line may be one of multiprocessing, which any process may have.

    Locks of threads look the same at a line of the program's own.
    """
    return not is_of_threads(frame) and not awaits_an_import(frame)


_ACQUIRES = re.compile(r"\.acquire\(")
_IS_A_LOCK = re.compile(
    r"(?<![a-z])(r?lock|cond|condition|mutex|sem|semaphore)s?(\[[^\]]*\]|\(\))?(\s+as\s.*)?\s*($|[,)])", re.IGNORECASE
)
_BEGINS_WITH = re.compile(r"\s*(async\s+)?with\b")
_CALLS = re.compile(r"[\w.]+\([^()]*[^()\s][^()]*\)")
_CALLED = re.compile(r"([\w.]+)\(")
_BRIEF = (
    "Counter|OrderedDict|abs|add|all|any|append|appendleft|bool|bytearray|bytes|capitalize|clear|copy|"
    "current_thread|decode|defaultdict|deque|dict|difference|discard|divmod|encode|endswith|enumerate|extend|"
    "extendleft|fields|filter|float|format|fromkeys|frozenset|get_ident|getattr|hasattr|hash|heappop|heappush|hex|"
    "id|insert|insort|int|intersection|is_set|isinstance|issubclass|items|iter|keys|len|list|locked|lower|lstrip|"
    "map|max|min|monotonic|monotonic_ns|move_to_end|next|notify|notify_all|ord|partition|perf_counter|"
    "perf_counter_ns|pop|popitem|popleft|pow|process_time|range|remove|replace|repr|reversed|rotate|round|"
    "rpartition|rstrip|set|setattr|setdefault|sorted|split|splitlines|startswith|str|strip|sum|super|"
    "symmetric_difference|task_done|thread_time|time|tuple|type|union|update|upper|values|vars|zip"
)
"""Calls in the body of a `with` that do not wait, as a pattern."""
_NAMED_ANEW = (
    re.compile(rf"\b(\w+)\s*=\s*(?:\w+\.)*(?:{_BRIEF})\s*(?:$|[;#])"),
    re.compile(rf"\b(?:{_BRIEF})\s+as\s+(\w+)"),
)
"""Other names that a file has for such calls: `pc = time.perf_counter`."""
_IN_PYTHON = re.compile(r"^\s*(?:async\s+)?(?:def|class)\s+(\w+)")
_OF_ITS_OWN = re.compile(r"(?:(?:self|cls)\.)?(\w+)")
_WITH = re.compile(r"^\s*with\s+\(?([^#]*?)\)?\s*:")
_NAMED = re.compile(r"[\w.]*?(\w+)(?:\[[^\]]*\])?(?:\s+as\s.*)?")
_AWAITS = re.compile(r"\.(get|put|wait|join|result)\(")
_GETS = re.compile(r"(\w+)\.get\(")
_MAKES_A_QUEUE = re.compile(r"\b(\w+)\s*(?::[^=]*)?=\s*(?:field\(\s*default_factory\s*=\s*)?(?:\w+\.)*SimpleQueue\b")


def takes_a_lock(frame: Frame, changed: Collection[str] = ()) -> bool:
    """Tell whether a line of a program's own code acquires a lock: `lock.acquire()`, `with self.lock:`, `with guard:`.

    An import acquires the lock of its module, too. Else the words of the line tell that, or those of another line of the
    file that makes the lock: `guard = Lock()`. The lines of files in `changed` are not those of the trace.
    """
    if awaits_an_import(frame):
        return True
    text = _line_of(frame, changed)
    entered, body = _parts_of_with(text)
    if not all(_is_brief(name, frame.filename) for name in _CALLED.findall(body)):
        return False  # that call may have released the GIL, with the lock
    if _ACQUIRES.search(text) or _IS_A_LOCK.search(entered):
        return True
    return bool(locks_at(frame, changed))


def _is_brief(name: str, filename: str) -> bool:
    """Tell whether a thread does not wait at the line that makes a call: it keeps the GIL, or has another line meanwhile."""
    if re.fullmatch(_BRIEF, name.rpartition(".")[2]):
        return True
    if any(name in words_in(filename, pattern) for pattern in _NAMED_ANEW):
        return True
    own = _OF_ITS_OWN.fullmatch(name)
    return own is not None and own[1] in words_in(filename, _IN_PYTHON)


def locks_at(frame: Frame, changed: Collection[str] = ()) -> tuple[Lock, ...]:
    """Return the locks that a line takes, without what it enters besides, such as a file."""
    taken = locks_taken(frame, changed)
    if not taken or _ACQUIRES.search(_line_of(frame, changed)):
        return taken
    made = locks_made(frame.filename)
    return tuple(one for one in taken if _IS_A_LOCK.search(one.name) or one.name in made)


_FOR_A_TIME = re.compile(
    r"\btimeout\b(?!\s*=\s*None\b)|\bblocking\b(?!\s*=\s*True\b)"
    r"|(\.(acquire|result|exception|wait)|(?<![\"'])(?<!path)\.join)"
    r"\(\s*(?!(timeout\s*=\s*)?None\b|(blocking\s*=\s*)?True\s*\))[^\s)]"
)
"""Words of a call that waits no longer than for a time; `join` is also a method of texts, and a function for paths."""


def waits_for_good(frame: Frame, changed: Collection[str] = ()) -> bool:
    """Tell whether a line that takes a lock, or waits for a result, does so without a time-out, as far as its words tell.

    The arguments of such a call may be on lines of their own.
    """
    words = "" if frame.filename in changed else rest_of_statement(frame.filename, frame.line)
    return _FOR_A_TIME.search(words) is None


def is_of_a_queue(frame: Frame) -> bool:
    """Tell whether a frame is that of a method of `queue.Queue`."""
    return module_of_threads(frame) == "queue.py" and frame.function.startswith("Queue.")


def _parts_of_with(text: str) -> tuple[str, str]:
    """Return what the `with` of a line enters, and the rest of that line; "", "" if there is no `with`.

    A call with arguments stands as `?` in the first: a lock among its arguments is not entered.
    """
    begin = _BEGINS_WITH.match(text)
    if begin is None:
        return "", ""
    depth, end = 0, begin.end()
    while end < len(text) and not (depth <= 0 and text[end] in ":#"):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    entered, before = text[begin.end() : end], ""
    while entered != before:
        entered, before = _CALLS.sub("?", entered), entered
    return entered, text[end + 1 :].partition("#")[0]


def may_await_a_thread(frame: Frame, changed: Collection[str] = ()) -> bool:
    """Tell whether a line of a program's own code may wait for another thread: `with NAME:`, or a call such as `.get()`.

    That alone is no evidence: such a line may also wait for a file or a peer.
    """
    text = _line_of(frame, changed)
    found = _WITH.match(text)
    names = [] if found is None else found[1].split(",")
    return any(_NAMED.fullmatch(one.strip()) for one in names) or _AWAITS.search(text) is not None


def awaits_a_queue(frame: Frame, changed: Collection[str] = ()) -> bool:
    """Tell whether a line of a program's own code takes an item from a `SimpleQueue`, which is made in the same file."""
    names = _GETS.findall(_line_of(frame, changed))
    return any(one in words_in(frame.filename, _MAKES_A_QUEUE) for one in names)


def _line_of(frame: Frame, changed: Collection[str]) -> str:
    return "" if frame.filename in changed else source_line(frame.filename, frame.line)[:MOST_OF_A_LINE]


_SLEEP = re.compile(r"\bsleep\(\s*([0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*\)")


def sleep_ns_at(frame: Frame | None, changed: Collection[str] = ()) -> int | None:
    """Return the length of a sleep that a line of the program's own code has as a number: `time.sleep(0.01)`."""
    found = (
        None if frame is None or frame.filename in changed else _SLEEP.search(source_line(frame.filename, frame.line))
    )
    return None if found is None else round(float(found[1].replace("_", "")) * 1e9)


_TIMEOUT = re.compile(
    r"(?:\btimeout\s*=|\.(?:wait|join|result)\()\s*([0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*[,)]"
)


def timeout_ns_at(frames: Sequence[Frame], changed: Collection[str] = ()) -> int | None:
    """Return the time-out of a wait for another thread; 0 if it has one that is not known; None if it has none.

    The line that waits tells whether there is one, and the program's own line the number: `stop.wait(0.02)`.

    Args:
        frames: The stack, innermost frame first.
        changed: Files whose lines are not those of the trace.
    """
    if not frames or not _FOR_A_TIME.search(_line_of(frames[0], changed)):
        return None
    caller = next(itertools.filterfalse(is_of_threads, frames), None)
    found = [] if caller is None else _TIMEOUT.findall(_line_of(caller, changed))
    return round(float(found[0].replace("_", "")) * 1e9) if len(found) == 1 else 0
