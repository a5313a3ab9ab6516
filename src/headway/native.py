"""The controller's only door to the shared library: where it is, and whether it fits.

The C limits run inside launches, where the agent binds the functions it needs; this module finds the file and checks
its ABI once, so that a plan knows before it starts whether the native cells can run.
"""

import ctypes
import functools
import os
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from headway.errors import NativeError, SchedulingError

__all__ = [
    "ABI_VERSION",
    "CHUNK_BYTES",
    "Collection",
    "CollectionState",
    "Policy",
    "PolicyOption",
    "find_policy",
    "headers_path",
    "library_path",
    "policies",
]

ABI_VERSION = 9
"""HW_ABI_VERSION of native/include/headway/version.h that this package was written for."""

CHUNK_BYTES = 16384
"""What a traced process's memory and its file are counted in (native/trace/format.h)."""

_NAME = "libheadway.so"


def _candidates() -> list[Path]:
    named = os.environ.get("HEADWAY_NATIVE")
    if named:
        return [Path(named)]
    # Beside the package in a wheel; in site-packages when the package itself is an editable checkout.
    return [
        Path(__file__).resolve().parent / "lib" / _NAME,
        Path(sysconfig.get_path("platlib")) / "headway" / "lib" / _NAME,
    ]


def headers_path() -> Path:
    """Return the folder with the public C headers of the library. Raises NativeError."""
    folder = library_path().parent.parent / "include"
    if not (folder / "headway" / "policy.h").is_file():
        raise NativeError(
            f"the headers are not at {folder}", hint="build them again: `make native`, or reinstall headway"
        )
    return folder


def library_path() -> Path:
    """Return the path of a shared library with our ABI.

    `HEADWAY_NATIVE` names another file than the installed one.

    Raises:
        NativeError: No library is there, or it does not load, or its ABI version is another.
    """
    candidates = _candidates()
    for path in candidates:
        if not path.is_file():
            continue
        try:
            found: int = ctypes.CDLL(str(path)).hw_abi_version()
        except (OSError, AttributeError) as error:
            raise NativeError(
                f"the native library {path} does not load: {error}",
                hint="build it again: `make native`, or reinstall headway with a C compiler present",
            ) from error
        if found != ABI_VERSION:
            raise NativeError(
                f"the native library {path} has ABI version {found}, expected {ABI_VERSION}",
                hint="build it again: `make native`, or reinstall headway",
            )
        return path
    raise NativeError(
        f"the native library is not there (looked for {', '.join(map(str, candidates))})",
        hint="headway was installed without a C compiler; install one and reinstall, or go on without the native cells",
    )


@dataclass(frozen=True)
class PolicyOption:
    """An option of a policy for the GIL; its unit stands in its name."""

    name: str
    least: int
    most: int
    preset: int
    about: str


@dataclass(frozen=True)
class Policy:
    """A policy for the GIL (native/policy)."""

    name: str
    about: str
    good_for: str
    bad_at: str
    options: tuple[PolicyOption, ...]


class _Option(ctypes.Structure):
    """struct hw_policy_option of native/include/headway/policy.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("least", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("preset", ctypes.c_int64),
        ("about", ctypes.c_char_p),
    )


class _Policy(ctypes.Structure):
    """What struct hw_policy begins with."""

    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("about", ctypes.c_char_p),
        ("good_for", ctypes.c_char_p),
        ("bad_at", ctypes.c_char_p),
        ("options", ctypes.POINTER(_Option)),
    )


def _options(first: "ctypes._Pointer[_Option]") -> tuple[PolicyOption, ...]:
    found: list[PolicyOption] = []
    while (one := first[len(found)]).name is not None:
        found.append(PolicyOption(one.name.decode(), one.least, one.most, one.preset, one.about.decode()))
    return tuple(found)


def _text(text: bytes | None) -> str:
    """Return a text that a policy of a user's may leave out."""
    return "" if text is None else text.decode(errors="replace")


def _described(one: _Policy) -> Policy:
    return Policy(
        name=_text(one.name),
        about=_text(one.about),
        good_for=_text(one.good_for),
        bad_at=_text(one.bad_at),
        options=_options(one.options) if one.options else (),
    )


@functools.cache
def policies() -> tuple[tuple[Policy, ...], tuple[PolicyOption, ...]]:
    """Return the policies that are built in, the default one first, and the options that each of them has besides.

    Raises:
        NativeError: The library is missing or does not fit.
    """
    library = ctypes.CDLL(str(library_path()))
    library.hw_policy_at.restype = ctypes.POINTER(_Policy)
    library.hw_policy_engine_options.restype = ctypes.POINTER(_Option)
    found: list[Policy] = []
    while pointer := library.hw_policy_at(len(found)):
        found.append(_described(pointer.contents))
    return tuple(found), _options(library.hw_policy_engine_options())


def find_policy(name: str) -> tuple[int, Policy]:
    """Find a policy by its name, or load the library at a path (with a slash in it).

    Returns the address of its `struct hw_policy`, which stays, and what it is.

    Raises:
        SchedulingError: There is none.
        NativeError: The library is missing or does not fit.
    """
    library = ctypes.CDLL(str(library_path()))
    library.hw_policy_find.restype = ctypes.POINTER(_Policy)
    library.hw_policy_find.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    problem = ctypes.create_string_buffer(256)
    pointer = library.hw_policy_find(os.fsencode(name), problem, len(problem))
    if not pointer:
        raise SchedulingError(
            problem.value.decode(errors="replace") or f"there is no policy {name!r}",
            hint="`headway policies` lists those that are built in; your own is named by a path with a slash in it",
        )
    return ctypes.addressof(pointer.contents), _described(pointer.contents)


class _State(ctypes.Structure):
    """struct hw_collect_state of native/include/headway/collect.h."""

    _fields_ = (
        ("pid", ctypes.c_int32),
        ("ended", ctypes.c_int32),
        ("chunks", ctypes.c_int64),
        ("dropped_events", ctypes.c_int64),
        ("lost_children", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("closed", ctypes.c_int32),
        ("overwritten_until_ns", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a collection did up to now."""

    ended: bool
    """The session is over, and all of it is in the file."""
    chunks: int
    """Of CHUNK_BYTES each, in the file."""
    dropped_events: int
    lost_children: int
    """Children of the process that are not recorded, as they could not reach the collector."""
    error: int
    """The errno of the last write that failed, or 0."""
    closed: int
    """Chunks of memory that were complete in this pass, and given back."""
    overwritten_until_ns: int
    """Of the events that made room, when the last one was (CLOCK_MONOTONIC); 0: none did."""


@functools.cache
def _collecting() -> ctypes.CDLL:
    library = ctypes.CDLL(str(library_path()), use_errno=True)
    library.hw_collect_open.restype = ctypes.c_void_p
    library.hw_collect_open.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
    library.hw_collect_family.restype = ctypes.c_uint64
    library.hw_collect_family.argtypes = [ctypes.c_void_p]
    library.hw_collect_limit.restype = None
    library.hw_collect_limit.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.hw_collect_share.restype = None
    library.hw_collect_share.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.hw_collect_pass.restype = None
    library.hw_collect_pass.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(_State)]
    library.hw_collect_close.restype = None
    library.hw_collect_close.argtypes = [ctypes.c_void_p]
    return library


class Collection:
    """What a process records, being copied from its memory into a file (native/include/headway/collect.h)."""

    def __init__(self, memory: int, file: int, path: Path | None = None) -> None:
        """Map the memory.

        Args:
            memory: The descriptor that the process sent; it stays the caller's.
            file: The descriptor of the file; it stays the caller's, open as long as the collection.
            path: Of the file, which the process is told; None: of a memory that is not collected as it fills.

        Raises:
            OSError: The memory is none of ours (EPROTO), or there is no room.
            NativeError: The library is missing or does not fit.
        """
        self._library = _collecting()
        self._pointer = self._library.hw_collect_open(memory, file, None if path is None else os.fsencode(path))
        if not self._pointer:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    @property
    def family(self) -> int:
        """Which launch the process says it belongs to."""
        return int(self._library.hw_collect_family(self._pointer))

    def limit(self, chunks: int) -> None:
        """Let the file have so many chunks; the oldest events make room."""
        self._library.hw_collect_limit(self._pointer, chunks)

    def share(self, chunks: int) -> None:
        """Let the process have so many chunks of memory."""
        self._library.hw_collect_share(self._pointer, chunks)

    def copy(self, *, last: bool = False) -> CollectionState:
        """Copy what is new; `last`: the process is gone."""
        state = _State()
        self._library.hw_collect_pass(self._pointer, int(last), ctypes.byref(state))
        return CollectionState(
            ended=bool(state.ended),
            chunks=state.chunks,
            dropped_events=state.dropped_events,
            lost_children=state.lost_children,
            error=state.error,
            closed=state.closed,
            overwritten_until_ns=state.overwritten_until_ns,
        )

    def close(self) -> None:
        """Unmap the memory."""
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._library.hw_collect_close(pointer)
