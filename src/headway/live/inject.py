"""Make the main thread of a running CPython process queue a call: the basis of attaching before CPython 3.14.

ptrace stops the main thread alone; the other threads go on. Its registers are pointed at `Py_AddPendingCall`, and are
restored when that function returns, well under a millisecond later. The queued call consists of a few instructions that
run Python statements and never fail (stub.py). The interpreter makes the queued call where it also runs signal
handlers: in the main thread, between two bytecodes, with the GIL held.

The process's own state is untouched. The call has its own stack, text and instructions, in memory that the thread is
made to map. Signals that arrive meanwhile wait. The kernel restarts a system call that the stop interrupted, because
the registers with its number and its result are restored, too. A few system calls (epoll_wait, sigtimedwait, semop) are
never restarted by the kernel, whatever stops the process: these fail with EINTR, as after Ctrl-Z and fg. Python repeats
the first two itself.

`Py_AddPendingCall` allocates nothing and needs neither the GIL nor a thread state; CPython's own signal handlers call
it. The function takes one lock, that of the queue. If the stopped thread itself holds that lock, the thread would wait
for itself; therefore a call that begins to wait is undone and tried again later.

Between the first change of the registers and their restoration the process depends on the tracer. If SIGKILL ended the
tracer in that time, the thread would die of SIGSEGV when the call returns. The tracer is therefore a separate process,
in its own session, which ignores the signals that would end us and lives for those milliseconds; all work that can be
done before or after that time is done before or after it. Killing the tracer, too (with its cgroup, say), still kills
the program. If only our own process may trace (kernel.yama.ptrace_scope is 1 and the program is a child of ours), a
thread of our process does the work, and Ctrl-C does not interrupt that thread.

x86-64 only.

One file: the code that looks up, saves and calls belongs together, and no other module may have it.
"""

import contextlib
import ctypes
import json
import os
import platform
import signal
import struct
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from headway.errors import RecordingError
from headway.live.memory import Memory, mappings, python_symbols
from headway.live.proc import STATE, stat, status
from headway.live.standstill import NoPythonError
from headway.live.stub import NEEDED, WHERE_THERE_ARE, machine_code

__all__ = ["check_state", "run_soon"]

_TRIES = 20
_PAUSE_S = 0.005
"""The time between two tries, in which the thread may leave its present state."""
_CALL_S = 0.1
"""How long the call may take before we look at what it does."""
_PATIENCE_S = 5.0
"""How long to wait for a stop, or for a call that only lacks CPU time."""

_STACK_BYTES = 32 << 10
"""The call's own stack; the dynamic linker, which may run first, saves the vector registers there: up to 11 KB."""
_MOST_CODE = 512
_PAGE = 4096

# <linux/ptrace.h>, <asm/ptrace-abi.h>, <linux/elf.h>
_CONT, _GETREGS, _SETREGS, _POKEUSER, _SINGLESTEP, _DETACH = 7, 12, 13, 6, 9, 17
_GETSIGINFO, _GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4202, 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK, _GET_RSEQ = 0x420A, 0x420B, 0x420F
_EVENT_STOP = 128
_NT_X86_XSTATE = 0x202
_XSTATE_ROOM = 64 << 10  # the kernel tells how much of it is used
_DEBUG_REGISTERS = 848  # offsetof(struct user, u_debugreg)
_WALL, _NOTHREAD = 0x40000000, 0x20000000  # <linux/wait.h>
_READ, _WRITE, _EXECUTE = 1, 2, 4  # <linux/mman.h>
_MMAP, _MUNMAP, _FUTEX = 9, 11, 202  # <asm/unistd_64.h>
_RESTARTED = {-512, -513, -514, -516}  # ERESTARTSYS and its like: what interrupted system calls have in rax
_TF, _DF, _AC = 0x100, 0x400, 0x40000
_RF = 0x10000
"""Set after a fault, as at the end of a call: the processor then passes a breakpoint at the next instruction by."""
_OWN_SIGNALS = (signal.SIGTRAP, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)

_QUEUE = "Py_AddPendingCall"
_RUNS = "Py_IsInitialized"
_WAITING = ("PyMutex_Lock", "_PyParkingLot_Park")
"""CPython 3.13: the function in which a wait for a lock begins, and the one that enters the thread in the waiters."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def run_soon(pid: int, text: str) -> None:
    """Make the main thread of a process run Python statements, in their own namespace, at its next safe point.

    Returns when the statements are queued. Exceptions that the statements raise are discarded. If the process is a
    child of this one, nothing else may wait for it meanwhile (as Popen.poll does): such a wait would consume our stops.

    Raises:
        NoPythonError: The process runs no Python now.
        RecordingError: The statements cannot be queued; the process goes on as before.
    """
    if platform.machine() != "x86_64" or struct.calcsize("P") != 8:
        raise RecordingError(
            f"on {platform.machine()} headway attaches to CPython 3.14 and later only",
            hint="start the program with `headway trace`",
        )
    words = text.encode() + b"\0"
    why = _in_a_process_of_its_own(pid, words)
    if why is None:
        return
    if why.kind == _ForbiddenError.__name__:
        from concurrent.futures import ThreadPoolExecutor

        # A thread is the second best: Ctrl-C interrupts only the main thread, which waits for this one in __exit__.
        with ThreadPoolExecutor(1, "headway-inject") as own_thread:
            own_thread.submit(_run_soon, pid, words).result()
    elif why.kind == NoPythonError.__name__:
        raise NoPythonError(pid)
    else:
        raise RecordingError(why.message, hint=why.hint)


class _ForbiddenError(RecordingError):
    """The process may not be traced."""


class _Failure(NamedTuple):
    """Why the other process failed."""

    kind: str
    """The name of the error's class."""
    message: str
    hint: str


def _in_a_process_of_its_own(pid: int, text: bytes) -> _Failure | None:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From 3.12 on, fork() warns of threads that the child will not have. The child takes none of their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.close(reader)
            answer: list[object] = []
            try:
                _run_soon(pid, text)
            except RecordingError as error:
                answer = [type(error).__name__, error.message, error.hint]
            except BaseException as error:  # noqa: BLE001 the parent must learn of every failure
                answer = ["", f"process {pid} could not be reached: {error!r}", ""]
            os.write(writer, json.dumps(answer).encode())  # fails if the parent was killed meanwhile
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with open(reader, "rb") as answers:
            found = json.loads(answers.read() or b"0")
    finally:
        _reap(child)
    if found == 0:
        raise RecordingError(
            f"the helper that stops process {pid} for a moment was killed",
            hint="check that the process still runs, then try again",
        )
    return _Failure(*found) if found else None


def _reap(child: int) -> None:
    """Wait for the child, even after a Ctrl-C: the child is done in milliseconds, and must not be left behind."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)


def _run_soon(pid: int, text: bytes) -> None:
    try:
        check_state(pid)
        with Memory(pid) as memory:
            _find(pid, memory)  # a process without CPython is not even stopped
        why = None
        for _ in range(_TRIES):
            why = _attempt(pid, text)
            if why is None:
                return
            time.sleep(_PAUSE_S)
    except (ProcessLookupError, ChildProcessError, FileNotFoundError):
        raise RecordingError(f"there is no process {pid}, or it has just ended") from None
    except PermissionError as error:
        check_state(pid)
        raise _ForbiddenError(
            f"process {pid} may not be traced: {error.strerror}",
            hint="run as the process's user or as root, or allow ptrace (kernel.yama.ptrace_scope, a container's seccomp)",
        ) from None
    except OSError as error:
        raise RecordingError(f"process {pid} could not be reached: {error.strerror}") from error
    raise RecordingError(f"process {pid} could not be reached in {_TRIES} tries: {why}", hint="try again")


def check_state(pid: int) -> None:
    """Raise RecordingError if a process cannot be traced now."""
    said = status(pid)
    tracer = int(said.get("TracerPid", "0"))
    if tracer:
        who = f"{tracer}"
        with contextlib.suppress(OSError):
            other = status(tracer)  # TracerPid is the id of a thread
            who = f"{other['Tgid']} ({other['Name']})"
        raise RecordingError(f"process {pid} is already traced by process {who}", hint="end that debugger first")
    state = said.get("State", "?")[0]
    if state == "T":
        raise RecordingError(f"process {pid} is stopped", hint=f"let it continue first: kill -CONT {pid}")
    if state in "ZX":
        raise RecordingError(f"the main thread of process {pid} has ended")


def _attempt(pid: int, text: bytes) -> str | None:
    """Queue the call; return None, or the reason why the call could not be queued at this moment."""
    with _Tracee(pid) as thread, Memory(pid) as memory:
        # Looked up again: between the first lookup and the stop, the process may have executed another program.
        place = _find(pid, memory)
        if thread.in_restartable_sequence(memory):
            return "it is in a restartable sequence all the time"
        with thread.borrowed():
            return _queue(pid, thread, memory, place, text)


def _queue(pid: int, thread: "_Tracee", memory: "Memory", place: "_Place", text: bytes) -> str | None:
    # The code's pages hold the statements and the instructions (written despite the protection). The stack is separate.
    room = -(-(len(text) + _MOST_CODE) // _PAGE) * _PAGE
    start = stack = 0
    try:
        start = thread.map(place.syscall, room, _READ | _EXECUTE)
        stack = thread.map(place.syscall, _STACK_BYTES, _READ | _WRITE)
        code = start + -(-len(text) // 16) * 16
        memory.write(start, text)
        memory.write(code, machine_code(place.functions, start))
        # The return address holds no code; if all memory is executable, the bytes there are breakpoints.
        top = stack + _STACK_BYTES - 16
        memory.write(top, b"\xcc".ljust(16, b"\0"))
        memory.write(top - 8, struct.pack("<Q", top))
    except OSError as error:
        thread.unmap(place.syscall, start, room)
        thread.unmap(place.syscall, stack, _STACK_BYTES)
        return f"it cannot get memory: {error.strerror}"
    # A process that has just begun has no queue yet: the call would dereference a null pointer.
    runs = thread.call(place.runs, 0, 0, returns_to=top, waiting=())
    result = thread.call(place.queue, code, 0, returns_to=top, waiting=place.waiting) if runs else None
    thread.unmap(place.syscall, stack, _STACK_BYTES)
    if result == 0:
        return None  # the statements run at an unknown later time, so their memory stays: a page or two
    thread.unmap(place.syscall, start, room)
    if not runs:
        raise NoPythonError(pid)
    return "its queue of pending calls is locked" if result is None else "its queue of pending calls is full"


class _Registers(ctypes.Structure):
    """struct user_regs_struct."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
            *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
        )
    ]


class _IoVec(ctypes.Structure):
    _fields_ = [("iov_base", ctypes.c_void_p), ("iov_len", ctypes.c_size_t)]


class _Rseq(ctypes.Structure):
    """struct ptrace_rseq_configuration."""

    _fields_ = [("pointer", ctypes.c_uint64), ("size", ctypes.c_uint32), ("rest", ctypes.c_uint32 * 3)]


@final
class _Tracee:
    """The main thread of a process, stopped as long as the `with` lasts, except while it makes our calls."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stopped = False
        self._held: list[int] = []

    def __enter__(self) -> "_Tracee":
        # PTRACE_ATTACH would send a SIGSTOP. Without PTRACE_O_EXITKILL our end does not end the process.
        self._ptrace(_SEIZE)
        try:
            self._halt()
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._detach()

    def _ptrace(self, request: int, address: int = 0, data: Any = None) -> None:
        if _libc.ptrace(request, self._pid, address, data) == -1:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _resume(self, request: int, number: int = 0) -> None:
        self._stopped = False
        self._ptrace(request, 0, number)

    def _detach(self) -> None:
        # If the thread does not stop, the kernel detaches it when our thread ends. If it has ended, that is fine.
        with contextlib.suppress(ProcessLookupError, ChildProcessError, FileNotFoundError):
            number, event = (0, 0) if self._stopped else self._wait(_CALL_S) or (0, 0)
            self._ptrace(_DETACH, 0, 0 if event else number)
        for number in self._held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _wait(self, limit_s: float) -> tuple[int, int] | None:
        """Wait for a stop; return its signal and event, or None after the limit."""
        deadline = time.monotonic() + limit_s
        pause = 0.0
        while True:
            # Waits for stops only: the end of the process must be reported to its parent.
            found = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | _WALL | _NOTHREAD)
            if found is not None:
                self._stopped = True
                return found.si_status & 0xFF, found.si_status >> 8
            if time.monotonic() > deadline:
                return None
            time.sleep(pause)  # 0 yields the CPU
            pause = min(0.001, pause + 0.00001)
            if pause == 0.001:
                self._check_alive()

    def _check_alive(self) -> None:
        if stat(self._pid)[STATE] in "ZX":
            raise ProcessLookupError

    def _halt(self) -> None:
        """Stop the thread between two of its own instructions; signals that arrive first are delivered."""
        self._ptrace(_INTERRUPT)
        while True:
            stop = self._wait(_PATIENCE_S)
            if stop is None:
                raise RecordingError(
                    f"the main thread of process {self._pid} did not stop in {_PATIENCE_S:g} s",
                    hint="it waits in the kernel for a device or for a child of vfork; try again",
                )
            number, event = stop
            if event != _EVENT_STOP:
                self._resume(_CONT, number)
            elif number != signal.SIGTRAP:
                raise RecordingError(
                    f"process {self._pid} is stopped", hint=f"let it continue first: kill -CONT {self._pid}"
                )
            else:
                return

    def _registers(self) -> _Registers:
        registers = _Registers()
        self._ptrace(_GETREGS, 0, ctypes.byref(registers))
        return registers

    def in_restartable_sequence(self, memory: "Memory") -> bool:
        """Tell whether the thread is in a restartable sequence (rseq(2)).

        From there the kernel would have to send the thread back, and cannot if it finds the thread elsewhere.
        """
        rseq = _Rseq()
        try:
            self._ptrace(_GET_RSEQ, ctypes.sizeof(rseq), ctypes.byref(rseq))
        except OSError:
            return False  # the kernel has no PTRACE_GET_RSEQ_CONFIGURATION
        section = memory.words(rseq.pointer + 8, 1)[0] if rseq.pointer else 0
        if not section:
            return False
        start, length = memory.words(section + 8, 2)
        return bool(start <= self._registers().rip < start + length)

    @contextlib.contextmanager
    def borrowed(self) -> Iterator[None]:
        """Save everything that a call changes, and restore it, whatever happens."""
        registers = self._registers()
        room = ctypes.create_string_buffer(_XSTATE_ROOM)
        vectors = _IoVec(ctypes.addressof(room), _XSTATE_ROOM)
        self._ptrace(_GETREGSET, _NT_X86_XSTATE, ctypes.byref(vectors))
        mask = ctypes.c_uint64()
        self._ptrace(_GETSIGMASK, 8, ctypes.byref(mask))
        # Signals that our calls cause must not be blocked: if the kernel forces a blocked one, it resets its handler.
        others = ctypes.c_uint64((1 << 64) - 1 - sum(1 << number - 1 for number in _OWN_SIGNALS))
        try:
            self._ptrace(_SETSIGMASK, 8, ctypes.byref(others))
            yield
        finally:
            if not self._stopped:
                self._settle()
            # With the old rax and orig_rax, the kernel continues an interrupted system call from here.
            self._ptrace(_SETREGSET, _NT_X86_XSTATE, ctypes.byref(vectors))
            self._ptrace(_SETREGS, 0, ctypes.byref(registers))
            self._ptrace(_SETSIGMASK, 8, ctypes.byref(mask))

    def _halt_in_call(self) -> tuple[int, int]:
        self._ptrace(_INTERRUPT)
        stop = self._wait(_PATIENCE_S)
        if stop is None:
            raise RecordingError(f"process {self._pid} no longer stops", hint="it waits in the kernel")
        return stop

    def _settle(self) -> None:
        """Stop the thread after a failure of ours.

        Waits briefly for the end of the call, because the thread may hold the queue's lock inside the call. Consumes
        all signals that the call caused: a pending one would hit the thread when it goes on.
        """
        self._own(self._wait(_CALL_S) or self._halt_in_call())
        pending = sum(1 << number - 1 for number in _OWN_SIGNALS)
        while int(status(self._pid)["SigPnd"], 16) & pending:
            self._resume(_CONT)  # to the signal: the thread executes no further instruction
            stop = self._wait(_PATIENCE_S)
            if stop is None:
                raise RecordingError(f"process {self._pid} no longer stops")
            self._own(stop)

    def _own(self, stop: tuple[int, int]) -> bool:
        """Tell whether the call itself caused a stop; a signal that another process sent is kept until the end.

        Only SIGSTOP and the signals of _OWN_SIGNALS get here. A group-stop takes effect when we detach.
        """
        number, event = stop
        if event == _EVENT_STOP:
            return False
        told = (ctypes.c_int32 * 32)()
        self._ptrace(_GETSIGINFO, 0, ctypes.byref(told))
        if number in _OWN_SIGNALS and told[2] > 0:  # si_code > 0: sent by the kernel
            return True
        self._held.append(number)
        return False

    def system_call(self, instruction: int, number: int, *arguments: int) -> int:
        """Make the thread execute a system call that does not wait; return its result."""
        registers = self._registers()
        for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
            setattr(registers, name, value)
        registers.rip, registers.rax, registers.orig_rax = instruction, number, (1 << 64) - 1
        registers.eflags &= ~_TF
        self._ptrace(_SETREGS, 0, ctypes.byref(registers))
        while True:
            self._resume(_SINGLESTEP)
            stop = self._wait(_PATIENCE_S)
            if stop is None:
                raise RecordingError(f"process {self._pid} made no system call in {_PATIENCE_S:g} s")
            if self._own(stop):
                break
        registers = self._registers()
        if registers.rip != instruction + 2 or stop[0] != signal.SIGTRAP:
            raise RecordingError(f"process {self._pid} could not make a system call ({signal.Signals(stop[0]).name})")
        return int(registers.rax)

    def map(self, instruction: int, length: int, protection: int) -> int:
        """Make the thread map memory of its own; return the address. Raises OSError."""
        # MAP_PRIVATE | MAP_ANONYMOUS
        found = self.system_call(instruction, _MMAP, 0, length, protection, 0x22, -1 & (1 << 64) - 1, 0)
        if found > -_PAGE & (1 << 64) - 1:
            raise OSError((1 << 64) - found, os.strerror((1 << 64) - found))
        return found

    def unmap(self, instruction: int, start: int, length: int) -> None:
        """Make the thread unmap memory, unless `start` is 0."""
        if start:
            self.system_call(instruction, _MUNMAP, start, length)

    def call(self, function: int, *arguments: int, returns_to: int, waiting: tuple[int, ...]) -> int | None:
        """Make the thread call a function; return its result (an int), or None if the call would wait for a lock.

        Args:
            function: The function's address.
            arguments: Up to two arguments.
            returns_to: An address without code, at the upper end of the stack.
            waiting: Addresses at which a wait begins.
        """
        registers = self._registers()
        registers.rdi, registers.rsi = arguments
        registers.rip, registers.rsp, registers.rbp = function, returns_to - 8, 0
        registers.rax, registers.orig_rax = 0, (1 << 64) - 1  # the kernel must not restart a system call in there
        registers.eflags &= ~(_TF | _DF | _AC | _RF)
        self._ptrace(_SETREGS, 0, ctypes.byref(registers))
        with self._breakpoints(waiting):
            end = time.monotonic() + _PATIENCE_S
            limit_s = _CALL_S
            while True:
                self._resume(_CONT)
                stop = self._wait(limit_s)
                late = stop is None
                stop = stop or self._halt_in_call()
                registers = self._registers()
                if self._own(stop):
                    if registers.rip in (returns_to, returns_to + 1):
                        return ctypes.c_int32(registers.rax & 0xFFFFFFFF).value
                    if registers.rip in waiting and stop[0] == signal.SIGTRAP:
                        return None
                    name = signal.Signals(stop[0]).name
                    raise RecordingError(f"process {self._pid} got a {name} in the call, and continues as before")
                if late and self._may_be_abandoned(registers, guarded=bool(waiting), last=time.monotonic() > end):
                    return None
                if time.monotonic() > end:
                    raise RecordingError(
                        f"the call in process {self._pid} did not return in {_PATIENCE_S:g} s", hint="try again"
                    )

    def _may_be_abandoned(self, registers: _Registers, *, guarded: bool, last: bool) -> bool:
        """Tell whether a late call waits for a lock, and can be abandoned without loss.

        Up to CPython 3.12 the lock is a semaphore. If the futex call is about to be restarted, nothing has woken this
        thread. The thread does not have the lock, and nobody can pass the lock to it, because a semaphore has no
        hand-off. The one trace of the abandoned wait is a count of waiters that stays too high, which costs a needless
        futex call at each release. In CPython 3.13 an abandoned wait would leave the thread's entry in a list, on a
        stack that is gone; a breakpoint stands before that entry is made. If a wait gets past the breakpoint,
        abandoning it is the last resort, and better than a wait without end.
        """
        rax = ctypes.c_int64(registers.rax).value
        return registers.orig_rax == _FUTEX and rax in _RESTARTED and (last or not guarded)

    @contextlib.contextmanager
    def _breakpoints(self, addresses: tuple[int, ...]) -> Iterator[None]:
        """Stop this thread at these addresses, by its debug registers, because other threads run the same code.

        At the end the thread is stopped, whatever happened meanwhile.
        """
        try:
            # A virtual machine may have no debug registers: then _may_be_abandoned alone decides.
            with contextlib.suppress(OSError):
                for i, address in enumerate(addresses):
                    self._ptrace(_POKEUSER, _DEBUG_REGISTERS + 8 * i, address)
                self._ptrace(_POKEUSER, _DEBUG_REGISTERS + 8 * 7, sum(1 << 2 * i for i in range(len(addresses))))
            yield
        finally:
            if not self._stopped:
                self._settle()
            with contextlib.suppress(OSError):
                for i in (7, *range(len(addresses))):
                    self._ptrace(_POKEUSER, _DEBUG_REGISTERS + 8 * i, 0)


@final
@dataclass(frozen=True)
class _Place:
    """Addresses in a process: those of functions, and of a system call instruction."""

    queue: int
    """The address of the function that queues a call."""
    runs: int
    """The address of the function that tells whether Python has been started, and not ended."""
    functions: Mapping[str, int]
    """The addresses of the functions that the machine code calls."""
    waiting: tuple[int, ...]
    """The addresses of the functions in which the queueing function would begin to wait."""
    syscall: int
    """The address of a system call instruction."""


def _find(pid: int, memory: Memory) -> _Place:
    found = python_symbols(pid, memory, (_QUEUE, _RUNS, *NEEDED), (*_WAITING, *WHERE_THERE_ARE))
    if not found:
        raise RecordingError(
            f"process {pid} has no CPython in it that exports {_QUEUE}", hint="start the program with `headway trace`"
        )
    code = [(start, end, path) for start, end, rights, _, _, path in mappings(pid) if "r-x" in rights]
    waiting = tuple(found[name] for name in _WAITING if name in found)
    return _Place(found[_QUEUE], found[_RUNS], found, waiting, _find_syscall(memory, code))


def _find_syscall(memory: Memory, code: list[tuple[int, int, str]]) -> int:
    """Return the address of the bytes of the instruction `syscall`: the vDSO has them, and every libc."""
    for start, end, _ in sorted(code, key=lambda one: (one[2] != "[vdso]", "libc" not in one[2])):
        with contextlib.suppress(OSError):
            at = memory.read(start, min(end - start, 4 << 20)).find(b"\x0f\x05")
            if at >= 0:
                return start + at
    raise OSError(14, "no system call instruction was found")
