"""Make the main thread of a running CPython 3.14 or later run a script: our own implementation of PEP 768.

`sys.remote_exec` does the same, but only from an interpreter of the process's own version. There is none that we could
trust: the process's executable is a file of its user, who may be another user than ours. sys.remote_exec also cannot
cancel a request.

We write three things into the `PyThreadState` of the process's main thread: the script's path, a flag that a script is
pending, and a bit that makes the interpreter check the flag. `_PyRuntime` of the process has their offsets
(`_Py_DebugOffsets` of Include/internal/pycore_debug_offsets.h). If a process gives wrong offsets, only its own memory
is written to.
"""

import contextlib
import struct
from typing import final

from headway.errors import RecordingError
from headway.live.memory import ILL_FORMED, Memory, python_symbols
from headway.live.standstill import NoPythonError

__all__ = ["OFFSETS", "Request"]

_COMMON = {
    "runtime_state.interpreters_head": 5,
    "interpreter_state.id": 7,
    "interpreter_state.next": 8,
    "interpreter_state.threads_main": 10,
}
OFFSETS = {
    (3, 14): {**_COMMON, "debugger_support.eval_breaker": 89},
    (3, 15): {**_COMMON, "debugger_support.eval_breaker": 105},
}
"""The indices of words in _Py_DebugOffsets; the rest of debugger_support follows the eval breaker."""

_COOKIE = b"xdebugpy"
_MOST_INTERPRETERS = 10_000
_FURTHEST = 1 << 20
"""The bound of offsets: no field is so far from the start of its struct."""

# Bits of the eval breaker (Include/internal/pycore_ceval.h): its low byte. The upper bytes are a version, which the
# interpreter may change meanwhile, and are not written.
_LOOK = 1 << 5
# A bit that the interpreter sets between our read and our write would be lost. Bits that are set only once are
# therefore always set here: an unnecessary check costs the interpreter nothing.
_NOT_TO_BE_LOST = 1 << 1 | 1 << 2 | 1 << 3  # a signal has come, calls are pending, another thread raises an exception


@final
class Request:
    """A request to a process to run a script when its main thread next runs Python; can be cancelled until then."""

    def __init__(self, pid: int, version: tuple[int, int], script: bytes) -> None:
        """Ask a process of that version to run the script at a path, as the process sees the path.

        Raises:
            NoPythonError: The process runs no Python now.
            RecordingError: The process cannot be asked.
            OSError: The process has ended, or may not be traced.
        """
        self._pid = pid
        self._script = script + b"\0"
        self._memory = Memory(pid)
        try:
            self._support = self._find(version)
            self._ask()
        except RecordingError:
            self.close()
            raise
        except ILL_FORMED as error:
            self.close()
            if isinstance(error, ProcessLookupError | FileNotFoundError):
                raise
            raise RecordingError(
                f"the memory of process {pid} is not that of CPython {version[0]}.{version[1]}"
            ) from None

    def close(self) -> None:
        """Close the process's memory; the request stays in effect."""
        self._memory.close()

    def cancel(self) -> bool:
        """Cancel the request; return whether it was still pending. The process need not run, and may be stopped."""
        with contextlib.suppress(*ILL_FORMED):
            at, _, size = self._support
            pending = self._memory.read(at, 4) != bytes(4)
            if pending and self._memory.read(self._path, min(size, len(self._script))) == self._script:
                self._memory.write(at, bytes(4))
                return True
        return False

    @property
    def _path(self) -> int:
        return self._support[1]

    def _ask(self) -> None:
        at, path, size = self._support
        if len(self._script) > size:
            raise RecordingError(
                f"the path {self._script[:-1].decode(errors='replace')!r} is too long for CPython: {size - 1} bytes at most",
                hint="set XDG_RUNTIME_DIR to your own folder with a shorter path",
            )
        if self._memory.read(at, 4) != bytes(4):
            seen = self._memory.read(path, len(self._script))
            if seen.split(b"/headway/")[0] != self._script.split(b"/headway/")[0]:
                raise RecordingError(
                    f"process {self._pid} has a script of another debugger to run, and has not started it",
                    hint="end that debugger, or try again when the process's main thread runs Python",
                )
            self._memory.write(at, bytes(4))  # the request of a `headway attach` that was killed
        self._memory.write(path, self._script)
        self._memory.write(at, struct.pack("<i", 1))
        breaker = self._memory.read(self._breaker, 1)[0]
        self._memory.write(self._breaker, bytes([breaker | _LOOK | _NOT_TO_BE_LOST]))

    def _find(self, version: tuple[int, int]) -> tuple[int, int, int]:
        """Return the addresses of the pending flag and of the path in the main thread's state, and the path's room."""
        memory, places = self._memory, OFFSETS.get(version)
        if places is None:
            raise RecordingError(
                f"process {self._pid} runs CPython {version[0]}.{version[1]}, which this version of Headway does not know",
                hint="start the program with `headway trace`",
            )
        runtime = python_symbols(self._pid, memory, ("_PyRuntime",)).get("_PyRuntime")
        count = places["debugger_support.eval_breaker"] + 6
        block = memory.read(runtime, 8 * count) if runtime is not None else bytes(8 * count)
        offsets = struct.unpack(f"<{count}Q", block)
        found = (offsets[1] >> 24 & 0xFF, offsets[1] >> 16 & 0xFF)
        if runtime is None or block[:8] != _COOKIE or found != version:
            raise RecordingError(
                f"process {self._pid} has no CPython {version[0]}.{version[1]} in it that exports _PyRuntime"
            )
        breaker, support, enabled, pending, path, size = offsets[-6:]
        used = [*(offsets[place] for place in places.values()), support, enabled, pending, path]
        if max(used) > _FURTHEST or not 64 <= size <= 1 << 16:
            raise RecordingError(
                f"process {self._pid} runs a CPython {version[0]}.{version[1]} that Headway does not know",
                hint="start the program with `headway trace`",
            )
        named = {name: offsets[place] for name, place in places.items()}
        interpreter = self._main_interpreter(runtime, named)
        if struct.unpack("<i", memory.read(interpreter + enabled, 4))[0] != 1:
            raise RecordingError(
                f"process {self._pid} refuses debuggers",
                hint="it was started with -X disable-remote-debug or PYTHON_DISABLE_REMOTE_DEBUG, or its Python was built that way:"
                " start the program with `headway trace`",
            )
        thread = memory.words(interpreter + named["interpreter_state.threads_main"], 1)[0]
        if thread == 0:
            raise NoPythonError(self._pid)
        self._breaker = thread + breaker
        return thread + support + pending, thread + support + path, size

    def _main_interpreter(self, runtime: int, offsets: dict[str, int]) -> int:
        at = self._memory.words(runtime + offsets["runtime_state.interpreters_head"], 1)[0]
        for _ in range(_MOST_INTERPRETERS):
            if at == 0:
                break
            if self._memory.words(at + offsets["interpreter_state.id"], 1)[0] == 0:
                return at
            at = self._memory.words(at + offsets["interpreter_state.next"], 1)[0]
        raise NoPythonError(self._pid)
