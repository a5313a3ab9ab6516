"""Looks at a recorded process from outside: where the GIL's holder is, and what the system did with the threads.

Nothing runs in the process, nothing there is stopped, and nothing is written. The process's memory is read
(/proc/PID/mem), by the layout that its recorder determined (`struct hw_stack_layout` of
native/include/headway/trace.h). Looking therefore works while a C call keeps the GIL for seconds. A thread that runs
Python meanwhile changes the memory that is read: a stack counts only if its innermost frame is the same before and
after.

The process may be hostile: each number and length that comes from it has a bound.
"""

import contextlib
import os
import platform
import struct
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, final

from headway.live.lived import is_exiting
from headway.live.memory import ILL_FORMED, Memory
from headway.live.proc import fields_of
from headway.live.thread_ids import ThreadIds
from headway.traces.codes import ENCODINGS, Code
from headway.traces.frames import CoreTime, Frame, Stopped, text

__all__ = ["LAYOUT_OFFSET", "Accounts", "Looker", "Stops"]

LAYOUT_OFFSET = 3864
"""The offset of `layout` of `struct hw__control` (native/trace/control.h) in a recording's memory."""

_LAYOUT = struct.Struct("<QQQ16i")
_DEPTH = 128
_TRIES = 3
_TAGS = 7
_TEXT_BYTES = 4096
_TABLE_BYTES = 65536
_FRAME_BYTES = 160
_CODE_BYTES = 256
_MOST_CODES = 8192
_MOST_ACCOUNTS = 64
_MOST_LOOKS = 4096
_FUTEX = {"x86_64": {202, 449, 455}, "aarch64": {98, 449, 455}}.get(platform.machine(), set())
"""The numbers of the system calls futex, futex_waitv and futex_wait (<asm/unistd.h>)."""
_AT_ONCE_NS = 2_000_000
"""An account that was read so soon after a look at the clock is one of that time."""
_MOST_STOPS = 256
_STATE_NS = 20_000_000
"""The least time between two looks at whether a process is stopped."""
_RUNNABLE = b"R"
"""The state of a thread that runs or could run."""
_STANDS_STILL_NS = 20_000_000
"""More than the age of the account of a thread that runs: the kernel renews it at each tick, 10 ms apart at most."""
_ASLEEP_AGAIN = 1 / 8
"""A thread whose account stands still is seen asleep again after this part of that time."""
_EXITING_NS = 10_000_000
"""A thread that has an event so long after the first look at an exiting process shows that the process goes on."""
_STOPPED = (b"T", b"t")
"""The states of a thread that a signal has stopped, and of one that a debugger has stopped (proc(5))."""


@final
@dataclass(frozen=True, slots=True)
class _Layout:
    """struct hw_stack_layout."""

    code_type: int
    shim_code: int
    cleanup_code: int
    thread_frame: int
    cframe_frame: int
    frame_code: int
    frame_previous: int
    frame_instruction: int
    code_first_line: int
    code_filename: int
    code_qualname: int
    code_linetable: int
    code_instructions: int
    object_type: int
    object_bytes: int
    string_state: int
    string_kind_shift: int
    string_ascii: int
    string_other: int

    @property
    def makes_sense(self) -> bool:
        """Whether the layout is set, and its offsets lie within the bytes that are read at a time."""
        of_a_frame = (self.frame_code, self.frame_previous, self.frame_instruction)
        of_a_code = (
            self.code_first_line,
            self.code_filename,
            self.code_qualname,
            self.code_linetable,
            self.object_type,
        )
        return (
            self.code_type != 0
            and all(0 <= one <= _FRAME_BYTES - 8 for one in of_a_frame)
            and all(0 <= one <= _CODE_BYTES - 8 for one in of_a_code)
        )


@final
class Looker:
    """Reads where threads of one process are. Use it in a `with`, or close it."""

    def __init__(self, pid: int, memory: int) -> None:
        """Open the process's memory.

        Args:
            pid: The process's id.
            memory: The descriptor of the memory that the process records into, which has the layout.

        Raises:
            OSError: The memory may not be read, or the process is gone.
            ValueError: The process gave no layout, so there are no stacks (CPython before 3.11).
        """
        self._layout = _Layout(*_LAYOUT.unpack(os.pread(memory, _LAYOUT.size, LAYOUT_OFFSET)))
        if not self._layout.makes_sense:
            raise ValueError("no layout")
        self._memory = Memory(pid, read_only=True)
        self._codes: dict[int, tuple[tuple[int, ...], Code]] = {}
        """By address: the words that identify a code object (another one may be there later), and the code object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the process's memory."""
        self._memory.close()

    def holders_stack(self, gil: int) -> tuple[Frame, ...]:
        """Return the stack of a GIL's holder, the innermost frame first; () if there is no holder or no readable stack.

        Args:
            gil: The address of the GIL's memory: `interval`, `last_holder` and `locked` of `struct _gil_runtime_state`.
        """
        for _ in range(_TRIES):
            try:
                holder, locked = struct.unpack_from("<Qi", self._memory.read(gil, 24), 8)
                if locked != 1 or not holder:
                    return ()
                innermost = self._innermost(holder)
                found = self._walk(innermost)
                again, locked = struct.unpack_from("<Qi", self._memory.read(gil, 24), 8)
                if locked == 1 and again == holder and self._innermost(holder) == innermost:
                    return found
            except ILL_FORMED:
                continue
        return ()

    def _word(self, address: int) -> int:
        return self._memory.words(address, 1)[0]

    def _innermost(self, thread_state: int) -> int:
        frame = self._word(thread_state + self._layout.thread_frame)
        return self._word(frame + self._layout.cframe_frame) if self._layout.cframe_frame >= 0 and frame else frame

    def _walk(self, frame: int) -> tuple[Frame, ...]:
        where = self._layout
        found: list[Frame] = []
        for _ in range(2 * _DEPTH):
            if not frame or len(found) == _DEPTH:
                break
            words = self._memory.read(frame, _FRAME_BYTES)
            code = int.from_bytes(words[where.frame_code : where.frame_code + 8], "little") & ~_TAGS
            previous = int.from_bytes(words[where.frame_previous : where.frame_previous + 8], "little")
            if code and code not in (where.shim_code, where.cleanup_code):
                known = self._code(code)
                if known is not None:
                    at = int.from_bytes(words[where.frame_instruction : where.frame_instruction + 8], "little")
                    offset = at - (code + where.code_instructions)
                    found.append(known.frame(offset))
            frame = previous
        return tuple(found)

    def _code(self, address: int) -> Code | None:
        """Return the code object at an address; None if there is none."""
        where = self._layout
        words = self._memory.read(address, _CODE_BYTES)

        def word(at: int) -> int:
            return int.from_bytes(words[at : at + 8], "little")

        if word(where.object_type) != where.code_type:
            return None
        first_line = int.from_bytes(words[where.code_first_line : where.code_first_line + 4], "little", signed=True)
        known_by = (first_line, word(where.code_filename), word(where.code_qualname), word(where.code_linetable))
        before, known = self._codes.get(address, (None, None))
        if known is None or before != known_by:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            table = known_by[3]
            size = min(self._word(table + where.object_bytes), _TABLE_BYTES)
            linetable = self._memory.read(table + where.object_bytes + 16, size) if size else b""
            known = Code(self._text(known_by[1]), self._text(known_by[2]), max(0, first_line), linetable)
            self._codes[address] = (known_by, known)
        return known

    def _text(self, address: int) -> str:
        where = self._layout
        length = self._word(address + where.object_bytes)
        (state,) = struct.unpack("<I", self._memory.read(address + where.string_state, 4))
        state >>= where.string_kind_shift
        kind, compact, ascii_ = state & 7, state >> 3 & 1, state >> 4 & 1
        if kind not in ENCODINGS:
            return "?"
        data = address + (where.string_ascii if ascii_ else where.string_other)
        if not compact:
            data = self._word(address + where.string_other)
        size = min(length * kind, _TEXT_BYTES)
        return text(self._memory.read(data, size), ENCODINGS[kind]) if size else ""


@final
class _Look(NamedTuple):
    """The last look at a thread, and the looks before it that found the same account."""

    account: tuple[int, int]
    """The time that the thread ran and queued, as the kernel tells it."""
    since_ns: int
    """The first look that found this account."""
    slept_ns: int
    """The time that the kernel has counted as waits for a core so far although the thread slept."""
    runnable_ns: int = 0
    """The first look at which the thread could have run with this account; 0: none."""
    asleep_ns: int = 0
    """The last look that found it asleep with this account; 0: none."""


@final
class Accounts:
    """The core time that the system gave threads of one process. Files stay open: they are read many times a second."""

    def __init__(self, pid: int) -> None:
        """Prepare without opening a file."""
        self._pid = pid
        self._ids = ThreadIds(pid)
        self._files: dict[int, int] = {}
        self._state = -1
        self._looks: dict[int, _Look] = {}
        """The last look at each thread."""

    def now(self, tid: int, *, holds: bool = False) -> CoreTime | None:
        """Return a thread's core time up to now, as `of`.

        The caller may lose its core between the look at the clock and the account, which then has what the thread did
        seconds later. Such an account is read again.
        """
        for _ in range(_TRIES):
            now_ns = time.monotonic_ns()
            seen = self.of(tid, now_ns, holds=holds)
            if time.monotonic_ns() - now_ns < _AT_ONCE_NS:
                break
        return seen

    def of(self, tid: int, now_ns: int, *, holds: bool = False) -> CoreTime | None:
        """Return a thread's core time up to now; None if the thread is gone or the kernel does not tell.

        Args:
            tid: The thread, by the id that the process has for it.
            now_ns: The time.
            holds: The thread holds a GIL. The kernel counts a wait for a core when it is over, but others wait for this
                thread now. So such a wait is counted as far as looks show that it goes on.

        The kernel may count a sleep as a wait for a core, from Linux 6.12 on: a thread that sleeps can stay in its run queue
        for a while, and what moves it to another core's then begins a wait that ends with the sleep. No more of a wait is
        counted than there was time since the thread was last seen asleep.
        """
        try:
            if tid not in self._files:
                if len(self._files) >= _MOST_ACCOUNTS:
                    self._close_threads()
                path = f"/proc/{self._pid}/task/{self._ids.ours(tid, now_ns)}/schedstat"
                self._files[tid] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            ran, queued, _ = os.pread(self._files[tid], 100, 0).split()
        except (OSError, ValueError):
            self._ids.forget(tid)
            self._looks.pop(tid, None)
            with contextlib.suppress(OSError, KeyError):
                os.close(self._files.pop(tid))
            return None
        look = self._compared(tid, int(ran), int(queued), now_ns, holds=holds)
        pending_ns = now_ns - look.runnable_ns if holds and look.runnable_ns else 0
        waited_ns = int(queued) - look.slept_ns + (pending_ns if pending_ns >= _STANDS_STILL_NS else 0)
        return CoreTime(now_ns, tid, int(ran), waited_ns)

    def _compared(self, tid: int, ran_ns: int, queued_ns: int, now_ns: int, *, holds: bool) -> _Look:
        """Return what is known of a thread after a look at its account, and keep it until the next look."""
        if len(self._looks) >= _MOST_LOOKS:
            self._looks.clear()
        before = self._looks.get(tid)
        if before is not None and before.account == (ran_ns, queued_ns):
            look = before
            # A look costs as much as several accounts, so there are few while a thread sleeps for long.
            known_ns = max(look.since_ns, look.asleep_ns)
            is_due = not look.runnable_ns and now_ns - known_ns >= (now_ns - look.since_ns) * _ASLEEP_AGAIN
        else:
            slept_ns = 0 if before is None else before.slept_ns
            if before is not None and before.asleep_ns:
                # The account may have been read after the look at the clock.
                most_ns = max(now_ns, time.monotonic_ns()) - before.asleep_ns
                slept_ns += max(0, queued_ns - before.account[1] - most_ns)
            look = _Look((ran_ns, queued_ns), now_ns, slept_ns)
            is_due = holds
        if is_due and (state := self._state_of(tid, now_ns)):
            is_runnable = state == _RUNNABLE
            look = look._replace(runnable_ns=now_ns) if is_runnable else look._replace(asleep_ns=now_ns)
        self._looks[tid] = look
        return look

    def _state_of(self, tid: int, now_ns: int) -> bytes:
        """Return the letter of a thread's state (proc(5)); b"" if the kernel does not tell."""
        try:
            with open(f"/proc/{self._pid}/task/{self._ids.ours(tid, now_ns)}/stat", "rb", buffering=0) as file:
                return _state_in(file.read(100))
        except OSError:
            return b""

    def sleeps_in_a_futex(self, tid: int, now_ns: int) -> bool:
        """Tell whether a thread sleeps until another one wakes it; False if the kernel does not tell."""
        try:
            with open(f"/proc/{self._pid}/task/{self._ids.ours(tid, now_ns)}/syscall", "rb", buffering=0) as file:
                return int(file.read(100).split()[0]) in _FUTEX
        except (OSError, ValueError, IndexError):  # ValueError: the thread runs
            return False

    def state(self) -> tuple[bytes, bool] | None:
        """Return the letter of the state of the process's first thread, and whether that thread is exiting.

        None if the kernel does not tell, as of a process that is gone.
        """
        try:
            if self._state < 0:
                self._state = os.open(f"/proc/{self._pid}/task/{self._pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            text = os.pread(self._state, 200, 0)
            return _state_in(text), is_exiting(fields_of(text.decode("utf-8", "replace")))
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Close all files."""
        self._close_threads()
        if self._state >= 0:
            os.close(self._state)
            self._state = -1

    def _close_threads(self) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _state_in(stat: bytes) -> bytes:
    """Return the state in the beginning of a `stat` file; the name before it is in parentheses, and may have some itself."""
    return stat.rpartition(b") ")[2][:1]


@final
class Stops:
    """The times for which a process was stopped, and until when it ran. No thread runs then, so that no event tells it."""

    def __init__(self, accounts: Accounts) -> None:
        """Begin without a look."""
        self._accounts = accounts
        self._looked_ns = self._running_ns = 0
        self.known: deque[Stopped] = deque(maxlen=_MOST_STOPS)
        """The last stops, the oldest first; the last one may go on."""
        self._alive_ns = self._exiting_ns = 0
        """The last look at which the process was not exiting, and the first one at which it was."""
        self._outlives = False
        """Whether threads of the process have gone on after its first one."""

    def look(self, now_ns: int) -> None:
        """Look whether the process is stopped, unless the last look was just before."""
        if now_ns - self._looked_ns < _STATE_NS:
            return
        self._looked_ns = now_ns
        self._running_ns = self._running_ns or now_ns
        before = self.known.pop() if self.known and self.known[-1].running_ns == self._running_ns else None
        state = self._accounts.state()
        if state is not None and state[1]:
            self._exiting_ns = self._exiting_ns or now_ns
        elif state is not None:
            self._alive_ns, self._exiting_ns = now_ns, 0
        if state is not None and state[0] in _STOPPED:
            since_ns = before.since_ns if before is not None else now_ns
            self.known.append(Stopped(self._running_ns, since_ns, now_ns, now_ns))
            return
        self._running_ns = now_ns
        if before is not None:
            self.known.append(replace(before, runs_ns=now_ns))

    @property
    def seems_to_exit(self) -> bool:
        """Whether the process's first thread was exiting at the last look, and no other thread is known to go on."""
        return bool(self._exiting_ns) and not self._outlives

    def exits_ns(self, last_ns: int) -> int:
        """Return the last look before the process began to exit; 0: it has not begun, as far as is known.

        The kernel gives back the memory of a process before it tells that the process has ended: up to a second for each
        few GB. No thread runs code then.

        Args:
            last_ns: The time of the last event of any thread. A process may go on without its first thread.
        """
        if self._exiting_ns and last_ns >= self._exiting_ns + _EXITING_NS:
            self._outlives = True
        return self._alive_ns if self.seems_to_exit else 0
