"""Samples the instruction that this thread runs: the shares of lines and calls of C, without any observation of them.

Another process reads this one's memory (see `sampler`), so nothing is added to what the thread does, and no line is
favoured: a sample that the interpreter takes itself, for a signal or for another thread, comes at calls and at ends of
loops only. The layout of frames differs from version to version. It is found by searching for values that are known
here, and where that fails there are no samples.
"""

import bisect
import dis
import gc
import json
import os
import struct
import subprocess
import sys
import types

from . import sampler

__all__ = ["Sampler", "by_place", "codes_at"]

_OURS = os.path.dirname(os.path.abspath(__file__))
_AGENT = os.path.dirname(_OURS)
_FEWEST = 100
"""Fewer samples than this tell no shares."""
_MOST_WORDS = 100
_UNTIL_3_10 = {(3, 8): (104, 1), (3, 9): (104, 1), (3, 10): (96, 2)}
"""The place of a frame object's last instruction (`f_lasti`), and the bytes of its unit (Include/cpython/frameobject.h)."""


class _UnknownError(Exception):
    """The layout of this interpreter's memory is not known."""


def _words(memory, address, count):
    data = os.pread(memory, 8 * count, address)
    return struct.unpack("<%dQ" % (len(data) // 8), data[: len(data) // 8 * 8])


def _thread():
    import ctypes

    ask = ctypes.pythonapi.PyThreadState_Get
    ask.restype = ctypes.c_void_p
    return ask()


def _frame_layout(memory, frame):
    """Return (the address of a suspended frame, the layout of frames)."""
    code = frame.f_code
    if sys.version_info < (3, 11):
        last, unit = _UNTIL_3_10[sys.version_info[:2]]
        return id(frame), {"code": 32, "instruction": last, "unit": unit, "base": 0}
    for at in _words(memory, id(frame), 8):
        try:
            found = _words(memory, at, 12)
        except (OSError, OverflowError):
            continue
        ours = [place for place, word in enumerate(found) if word & ~sampler._TAG == id(code)]
        last = [place for place, word in enumerate(found) if id(code) < word < id(code) + sys.getsizeof(code)]
        if ours and last:
            base = found[last[0]] - id(code) - frame.f_lasti
            return at, {"code": 8 * ours[0], "instruction": 8 * last[0], "unit": 0, "base": base}
    raise _UnknownError


def _layout(memory):
    """Return the layout of this thread's memory, for `sampler.place_of`."""
    thread = _thread()
    own, layout = _frame_layout(memory, sys._getframe())
    layout = dict(layout, memory=memory, thread=thread, chain=None)
    # This function's frame must be the innermost one at each read, so no function in Python makes the read.
    words = memoryview(os.pread(memory, 8 * _MOST_WORDS, thread)).cast("Q")
    for place, word in enumerate(words):
        if word == own:
            return dict(layout, thread_to=8 * place)
    for place, word in enumerate(words):
        try:
            # CPython 3.11 and 3.12 have a struct between the thread and its innermost frame.
            linked = memoryview(os.pread(memory, 24, word)).cast("Q")
        except (OSError, OverflowError, TypeError):
            continue
        if own in linked:
            return dict(layout, thread_to=8 * place, chain=8 * list(linked).index(own))
    raise _UnknownError


def _is_right(memory, layout):
    """Tell whether a layout gives the instruction that is running here."""
    code, offset = sampler.place_of(memory, layout)
    return code == id(sampler.place_of.__code__) and 0 <= offset < len(sampler.place_of.__code__.co_code)


class Sampler:
    """Samples this thread from its making until `end`."""

    def __init__(self):
        self._process = None
        memory = -1
        try:
            # A descriptor that a process has opened for its own memory needs no right to trace it.
            memory = os.open("/proc/self/mem", os.O_RDONLY)
            layout = _layout(memory)
            if not _is_right(memory, layout):
                return
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", sampler.__file__, json.dumps(layout)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(memory,),
            )
            self._process.wait()
        except Exception:
            self._process = None
        finally:
            if memory >= 0:
                os.close(memory)

    def end(self):
        """Return {(address of a code object, offset of an instruction): samples}; {} if there are none."""
        if self._process is None:
            return {}
        try:
            with self._process.stdout as answer:
                with self._process.stdin as asked:
                    asked.write(b".")
                return {(code, offset): count for code, offset, count in json.loads(answer.read())}
        except Exception:
            return {}


def by_place(counts, codes, calls, own):
    """Return ({place: share of the samples}, samples); the shares of places that are not known are missing.

    A place is (file, line, ""), or that of a call of C. Samples in the agent's own code are the function's own if that is in
    C, and else nobody's.

    Args:
        counts: The answer of `Sampler.end`.
        codes: The code objects of the function's frames, by their addresses.
        calls: The places of calls of C, by (the code object's address, the offset of the instruction).
        own: The place of the function itself if it is in C, else None.
    """
    ours = {id(one) for one in _codes_of_ours()}
    calls = dict(calls)
    for (code, offset), place in list(calls.items()):
        # In CPython 3.11 the instruction before CALL makes the quick calls of C.
        if sys.version_info[:2] == (3, 11) and codes[code].co_code[offset - 4] == dis.opmap["PRECALL"]:
            calls.setdefault((code, offset - 4), place)
    lines = {address: [one for one in dis.findlinestarts(code) if one[1]] for address, code in codes.items()}
    found, total = {}, 0
    for (code, offset), count in counts.items():
        place = None
        if code in ours:
            if own is None:
                continue
            place = own
        elif code in codes and 0 <= offset < len(codes[code].co_code):
            at = bisect.bisect_right(lines[code], (offset, sys.maxsize)) - 1
            line = lines[code][at][1] if at >= 0 else codes[code].co_firstlineno
            place = calls.get((code, offset), (codes[code].co_filename, line, ""))
        total += count
        found[place] = found.get(place, 0) + count
    found.pop(None, None)
    if total < _FEWEST:
        return {}, 0
    return {place: count / total for place, count in found.items()}, total


def codes_at(counts):
    """Return {address: code object} of the functions in this process that were sampled; the agent's own are left out."""
    addresses = {code for code, _offset in counts}
    found = _codes(lambda code: not code.co_filename.startswith(_AGENT))
    return {id(code): code for code in found if id(code) in addresses}


def _codes_of_ours():
    """Return the code objects of the agent's functions, and those within them."""
    return _codes(lambda code: code.co_filename.startswith(_OURS))


def _codes(are_asked):
    """Return those code objects of this process's functions for which `are_asked` is true, and those within them."""
    found = [one.__code__ for one in gc.get_objects() if type(one) is types.FunctionType]
    found = [one for one in found if are_asked(one)]
    for code in found:
        found.extend(one for one in code.co_consts if isinstance(one, types.CodeType))
    return found
