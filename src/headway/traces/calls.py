"""Finds the kind of call that releases the GIL at a code location: a sleep, a lock, a receive, a send, or unknown.

A trace has the Python frame that made the call, not the C function. In the standard library, the frame tells enough. In
a program's own code, the text of the line tells the kind if the file exists; else only the length of the call tells it.
"""

import os
import re
from collections.abc import Collection
from enum import Enum

from headway.traces.frames import Frame
from headway.traces.sources import source_line

__all__ = ["Call", "call_at", "sleep_ns_at", "takes_a_lock"]


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


_STANDARD: dict[str, dict[str, Call]] = {
    "threading.py": dict.fromkeys(
        ("wait", "acquire", "join", "_wait_for_tstate_lock", "__enter__", "put", "get", "_acquire_restore"), Call.LOCK
    ),
    "queue.py": {"get": Call.LOCK, "put": Call.LOCK},
    "thread.py": {"_worker": Call.LOCK},
    "_base.py": {"result": Call.LOCK, "exception": Call.LOCK},
    "selectors.py": {"select": Call.POLL},
    "socketserver.py": {},
    "socket.py": {"accept": Call.RECEIVE, "readinto": Call.RECEIVE, "write": Call.SEND, "sendfile": Call.SEND},
    "ssl.py": {"read": Call.RECEIVE, "recv": Call.RECEIVE, "write": Call.SEND, "send": Call.SEND, "sendall": Call.SEND},
    "wasyncore.py": {"poll": Call.POLL, "poll2": Call.POLL, "recv": Call.RECEIVE, "send": Call.SEND},
}
"""By the name of a module of the standard library, or of a well-known one, and of its function."""

_WORDS: tuple[tuple[Call, re.Pattern[str]], ...] = (
    (Call.SLEEP, re.compile(r"\bsleep\(|\.wait_for\(")),
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
    base = os.path.basename(frame.filename)
    function = frame.function.rsplit(".", 1)[-1]
    if base in _STANDARD and function in _STANDARD[base]:
        return _STANDARD[base][function]
    text = "" if frame.filename in changed else source_line(frame.filename, frame.line)
    found = {kind for kind, pattern in _WORDS if pattern.search(text)}
    return found.pop() if len(found) == 1 else Call.UNKNOWN


_MOST_OF_A_LINE = 500
_TAKES = re.compile(
    r"\.acquire\(|\bwith\s[^:#]*?(?<![a-z])(r?lock|cond|condition|mutex|sem|semaphore)s?(\[[^\]]*\]|\(\))?\s*[:,)]",
    re.IGNORECASE,
)


def takes_a_lock(frame: Frame, changed: Collection[str] = ()) -> bool:
    """Tell whether a line of a program's own code acquires a lock, by its words: `with self.lock:`, `lock.acquire()`.

    The lines of files in `changed` are not those of the trace.
    """
    text = "" if frame.filename in changed else source_line(frame.filename, frame.line)
    return _TAKES.search(text[:_MOST_OF_A_LINE]) is not None


_SLEEP = re.compile(r"\bsleep\(\s*([0-9][0-9_.]*(?:[eE][+-]?[0-9]+)?)\s*\)")


def sleep_ns_at(frame: Frame | None, changed: Collection[str] = ()) -> int | None:
    """Return the length of a sleep that a line of the program's own code has as a number: `time.sleep(0.01)`."""
    found = (
        None if frame is None or frame.filename in changed else _SLEEP.search(source_line(frame.filename, frame.line))
    )
    return None if found is None else round(float(found[1].replace("_", "")) * 1e9)
