"""The C limits of Headway's native library, bound through ctypes.

The declarations repeat native/include/headway/{refcount,pingpong}.h, of the version in `ABI_VERSION`.
"""

import ctypes
import os

ABI_VERSION = 11

REFCOUNT_KINDS = {"plain": 0, "atomic": 1, "biased": 2, "buffered": 3}
REFCOUNT_SHARING = {"own": 0, "shared": 1}
PINGPONG_KINDS = {"threads": 0, "processes": 1}
UNPINNED = -1


class RefcountConfig(ctypes.Structure):
    """struct hw_refcount_config."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("sharing", ctypes.c_int),
        ("objects", ctypes.c_int),
        ("pairs", ctypes.c_int64),
        ("work", ctypes.c_int),
        ("cpus", ctypes.POINTER(ctypes.c_int)),
    ]


class RefcountResult(ctypes.Structure):
    """struct hw_refcount_result."""

    _fields_ = [
        ("elapsed_ns", ctypes.c_int64),
        ("thread_min_ns", ctypes.c_int64),
        ("thread_max_ns", ctypes.c_int64),
        ("lost", ctypes.c_int64),
        ("checksum", ctypes.c_uint64),
    ]


class PingPongResult(ctypes.Structure):
    """struct hw_pingpong_result."""

    _fields_ = [
        ("elapsed_ns", ctypes.c_int64),
        ("final_value", ctypes.c_int64),
        ("voluntary_switches", ctypes.c_int64),
        ("involuntary_switches", ctypes.c_int64),
    ]


def load_library(path):
    """Return the library at `path`. Raises OSError if it cannot be loaded or has another ABI."""
    library = ctypes.CDLL(path)
    version = library.hw_abi_version()
    if version != ABI_VERSION:
        raise OSError("%s has ABI version %d, this agent needs %d" % (path, version, ABI_VERSION))
    return library


class Limits:
    """The library at `path`. Raises OSError if it cannot be loaded or has another ABI, and in methods that fail."""

    def __init__(self, path):
        self._library = load_library(path)
        self._library.hw_pingpong.argtypes = [
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.POINTER(PingPongResult),
        ]
        self._library.hw_pingpong_one_way.argtypes = [
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int64),
        ]
        self._library.hw_refcount.argtypes = [ctypes.POINTER(RefcountConfig), ctypes.POINTER(RefcountResult)]

    @staticmethod
    def _check(code, function):
        if code != 0:
            raise OSError(-code, "%s: %s" % (function, os.strerror(-code)))

    def refcount(self, kind, threads, sharing, pairs, objects, work):
        """Run `threads` threads of `pairs` incref and decref pairs; return a RefcountResult."""
        config = RefcountConfig(REFCOUNT_KINDS[kind], threads, REFCOUNT_SHARING[sharing], objects, pairs, work, None)
        result = RefcountResult()
        self._check(self._library.hw_refcount(ctypes.byref(config), ctypes.byref(result)), "hw_refcount")
        return result

    def pingpong(self, kind, rounds, cpu_a=UNPINNED, cpu_b=UNPINNED):
        """Pass an integer back and forth `rounds` times; return a PingPongResult."""
        result = PingPongResult()
        self._check(
            self._library.hw_pingpong(PINGPONG_KINDS[kind], rounds, cpu_a, cpu_b, ctypes.byref(result)),
            "hw_pingpong",
        )
        return result

    def one_way_ns(self, kind, rounds, cpu_a=UNPINNED, cpu_b=UNPINNED):
        """Send `rounds` time stamps one way; return their latencies in ns."""
        latencies = (ctypes.c_int64 * rounds)()
        self._check(
            self._library.hw_pingpong_one_way(PINGPONG_KINDS[kind], rounds, cpu_a, cpu_b, latencies),
            "hw_pingpong_one_way",
        )
        return list(latencies)
