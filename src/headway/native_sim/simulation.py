"""Runs the simulator of the shared library."""

import ctypes
import errno
import functools
from types import TracebackType
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from headway.errors import NativeError, ScenarioError
from headway.library import library_path
from headway.native_sim.spec import GilResult, RoleResult, Spec
from headway.native_sim.structs import EVENT_DTYPE, GilResultStruct, RoleResultStruct, SpecStruct, in_c

__all__ = ["Simulation", "StandstillError", "coldness"]

_PROBLEM_BYTES = 256


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()))
    try:
        library.hw_sim_new.restype = ctypes.c_void_p
    except AttributeError:
        raise NativeError(
            f"the native library {library_path()} has no simulator", hint="build it again: `make native`"
        ) from None
    library.hw_sim_new.argtypes = [ctypes.POINTER(SpecStruct), ctypes.c_char_p, ctypes.c_int]
    library.hw_sim_run.restype = ctypes.c_int
    library.hw_sim_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_sim_role_result.restype = None
    library.hw_sim_role_result.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(RoleResultStruct)]
    library.hw_sim_gil_result.restype = None
    library.hw_sim_gil_result.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(GilResultStruct)]
    library.hw_sim_latencies.restype = ctypes.c_void_p
    library.hw_sim_latencies.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)]
    library.hw_sim_events.restype = ctypes.c_void_p
    library.hw_sim_events.argtypes = [
        ctypes.c_void_p,
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int64),
    ]
    library.hw_sim_ended_ns.restype = ctypes.c_int64
    library.hw_sim_ended_ns.argtypes = [ctypes.c_void_p]
    library.hw_sim_stood_ns.restype = ctypes.c_int64
    library.hw_sim_stood_ns.argtypes = [ctypes.c_void_p]
    library.hw_sim_steps.restype = ctypes.c_int64
    library.hw_sim_steps.argtypes = [ctypes.c_void_p]
    library.hw_sim_coldness.restype = ctypes.c_double
    library.hw_sim_coldness.argtypes = [ctypes.c_int64]
    library.hw_sim_free.restype = None
    library.hw_sim_free.argtypes = [ctypes.c_void_p]
    return library


def coldness(since_ns: int) -> float:
    """Return how cold code is that ran on its core `since_ns` ago, from 0 to 1; cold costs are multiplied by it."""
    return float(_library().hw_sim_coldness(since_ns))


def _copied(address: int | None, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a copy of one of the library's arrays."""
    if not address or not count:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype=dtype)


_FLOAT = np.dtype("<f4")

_WHY = {
    errno.EDEADLK: (
        "every thread that has not ended waits for another thread",
        "check which threads post, put, unlock or reply, and in which order",
    ),
    errno.EPERM: (
        "a thread unlocks a lock that is not locked, for which Python raises RuntimeError",
        "each `unlock` needs a `lock` before it; use a semaphore for threads that signal to others",
    ),
    errno.ENOMEM: ("memory ran out", "simulate a shorter time, or fewer threads"),
    errno.EPROTO: ("a program has an error", "a `reply` needs a `receive` before it"),
}


@final
class StandstillError(ScenarioError):
    """Nothing can happen any more in a simulation, and some threads have not ended."""


@final
class Simulation:
    """A machine in virtual time. As a context manager, it frees the machine at its end."""

    def __init__(self, spec: Spec) -> None:
        """Make the machine.

        Raises:
            ScenarioError: The library says that the specification makes no sense.
            NativeError: The library is missing, does not fit, or has no simulator.
        """
        self._library = _library()
        problem = ctypes.create_string_buffer(_PROBLEM_BYTES)
        self._pointer = self._library.hw_sim_new(ctypes.byref(in_c(spec)), problem, _PROBLEM_BYTES)
        if not self._pointer:
            raise ScenarioError(f"this cannot be simulated: {problem.value.decode(errors='replace')}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._library.hw_sim_free(pointer)

    def run(self, until_ns: int) -> None:
        """Run until a virtual time, or until all threads have ended.

        Raises:
            StandstillError: All threads that are left wait for ever. The results are those until then.
            ScenarioError: A program is wrong, or memory ran out.
        """
        error = -self._library.hw_sim_run(self._pointer, until_ns)
        if error:
            why, hint = _WHY.get(error, (f"error {error}", ""))
            kind = StandstillError if error == errno.EDEADLK else ScenarioError
            raise kind(f"the simulation stopped before {until_ns / 1e9:g} s: {why}", hint=hint)

    def role_result(self, index: int) -> RoleResult:
        """Return the result of a role; clients come after the roles."""
        result = RoleResultStruct()
        self._library.hw_sim_role_result(self._pointer, index, ctypes.byref(result))
        return RoleResult(**{name: getattr(result, name) for name, *_ in RoleResultStruct._fields_})

    def gil_result(self, index: int) -> GilResult:
        """Return the result of a GIL."""
        result = GilResultStruct()
        self._library.hw_sim_gil_result(self._pointer, index, ctypes.byref(result))
        return GilResult(**{name: getattr(result, name) for name, *_ in GilResultStruct._fields_})

    def latencies_ns(self, index: int) -> NDArray[np.float32]:
        """Return the length of each piece of work of a role or client, in the order in which they were done."""
        count = ctypes.c_int64()
        address = self._library.hw_sim_latencies(self._pointer, index, ctypes.byref(count))
        return _copied(address, count.value, _FLOAT)

    def events(self) -> tuple[NDArray[np.void], int]:
        """Return the events of the trace (EVENT_DTYPE), and the number of later ones that were dropped."""
        count, dropped = ctypes.c_int64(), ctypes.c_int64()
        address = self._library.hw_sim_events(self._pointer, ctypes.byref(count), ctypes.byref(dropped))
        return _copied(address, count.value, EVENT_DTYPE), dropped.value

    def ended_ns(self) -> int | None:
        """Return when the last thread ended, in virtual time; None if some have not ended."""
        ended_ns = int(self._library.hw_sim_ended_ns(self._pointer))
        return None if ended_ns < 0 else ended_ns

    def stood_ns(self) -> int | None:
        """Return the virtual time from which on nothing can happen any more; None if something can."""
        stood_ns = int(self._library.hw_sim_stood_ns(self._pointer))
        return None if stood_ns < 0 else stood_ns

    def steps(self) -> int:
        """Return the number of steps that the machine has made."""
        return int(self._library.hw_sim_steps(self._pointer))
