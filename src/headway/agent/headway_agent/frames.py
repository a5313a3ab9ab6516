"""Finds out where the running interpreter keeps frames and code objects, so that C can read stacks.

CPython's structs differ from version to version and from build to build. Instead of a table of offsets, this looks for
known values (`id(code)`, `id(code.co_filename)`, ...) in the memory of known objects. What is not found, in exactly one
place, raises; whoever uses a layout has C walk its own stack by it first (`check`) and compares every frame.

CPython 3.11 and later, where a frame is a _PyInterpreterFrame (Include/internal/pycore_frame.h).
"""

import collections
import ctypes
import struct
import sys
import types

__all__ = ["Layout", "LayoutError", "WalkedFrame", "check", "find"]

_WORD = struct.calcsize("P")
_TAGS = 7  # the low bits of a pointer, which 3.14 uses for marks
_THREAD_WORDS = 48  # of PyThreadState: the frame stands near its beginning
_FRAME_WORDS = 12
_HEAD = object.__basicsize__
_STRING_STATE = _HEAD + 2 * _WORD  # PyASCIIObject: head, length, hash, state
_DEPTH = 64

_OFFSETS = (
    "thread_frame",
    "cframe_frame",
    "frame_code",
    "frame_previous",
    "frame_instruction",
    "code_first_line",
    "code_filename",
    "code_qualname",
    "code_linetable",
    "code_instructions",
    "object_type",
    "object_bytes",
    "string_state",
    "string_kind_shift",
    "string_ascii",
    "string_other",
)


class LayoutError(Exception):
    """Objects are not laid out as in any known version."""


class Layout(ctypes.Structure):
    """struct hw_stack_layout of native/include/headway/trace.h."""

    _fields_ = [
        ("code_type", ctypes.c_uint64),
        ("shim_code", ctypes.c_uint64),
    ] + [(name, ctypes.c_int32) for name in _OFFSETS]


class WalkedFrame(ctypes.Structure):
    """struct hw_trace_frame."""

    _fields_ = [("code", ctypes.c_uint64), ("offset", ctypes.c_int64)]


def find():
    """Return this interpreter's Layout. Raises LayoutError."""
    layout = Layout(code_type=id(types.CodeType), code_instructions=types.CodeType.__basicsize__, object_bytes=_HEAD)
    sample = find.__code__
    places = {i * _WORD for i, word in enumerate(_words(id(sample), _HEAD // _WORD)) if word == id(types.CodeType)}
    layout.object_type = _only("an object's type", places)
    _find_code(layout)
    _find_string(layout)
    _find_frame(layout)
    if sys.version_info >= (3, 13):
        layout.shim_code = id(None)
    return layout


def check(layout, walk):
    """Have `walk` (hw_trace_walk) read this very stack, and compare. Raises LayoutError.

    Where C calls the interpreter, a frame stands that is not Python's. In 3.12 it has a code object that Python never
    shows and that is learnt here; later ones have None there.
    """
    state = _thread_state()
    found = (WalkedFrame * _DEPTH)()
    count = walk(ctypes.byref(layout), state, found, _DEPTH)
    expected = []
    frame = sys._getframe()
    while frame is not None and len(expected) < _DEPTH:
        expected.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    seen = [(f.code, f.offset) for f in found[:count]]
    unknown = {code for code, _ in seen} - {code for code, _ in expected}
    if len(unknown) == 1 and sys.version_info[:2] == (3, 12):
        layout.shim_code = unknown.pop()
        seen = [(code, offset) for code, offset in seen if code != layout.shim_code]
    del expected[len(seen) if count == _DEPTH else _DEPTH :]
    # This function itself has moved on since.
    if [code for code, _ in seen] != [code for code, _ in expected] or seen[1:] != expected[1:]:
        raise LayoutError("stacks are not where they should be")


def _memory(address, size):
    return bytes((ctypes.c_char * size).from_address(address))


def _words(address, count):
    return struct.unpack("%dP" % count, _memory(address, count * _WORD))


def _only(what, places):
    if len(places) != 1:
        raise LayoutError("cannot find %s" % what)
    return next(iter(places))


def _find_code(layout):
    codes = []
    for i in range(1, 5):
        source = "%sclass C%d:\n def f(self):\n  return %d\n" % ("\n" * (i * 97), i, i)
        module = compile(source, "<headway %d>" % i, "exec")
        body = next(c for c in module.co_consts if isinstance(c, types.CodeType))
        codes.append(next(c for c in body.co_consts if isinstance(c, types.CodeType)))
    size = types.CodeType.__basicsize__
    for field, attribute in (("filename", "co_filename"), ("qualname", "co_qualname"), ("linetable", "co_linetable")):
        places = [
            {
                i * _WORD
                for i, word in enumerate(_words(id(code), size // _WORD))
                if word == id(getattr(code, attribute))
            }
            for code in codes
        ]
        setattr(layout, "code_" + field, _only(attribute, set.intersection(*places)))
    places = [
        {
            i * 4
            for i, word in enumerate(struct.unpack("%di" % (size // 4), _memory(id(code), size // 4 * 4)))
            if word == code.co_firstlineno
        }
        for code in codes
    ]
    layout.code_first_line = _only("co_firstlineno", set.intersection(*places))


def _find_string(layout):
    # Of each kind, not interned, and longer than anything that is kept as a singleton.
    samples = {
        (1, True): "".join(["headway", "-sample"]),
        (1, False): "".join(["headway", "-s\xe4mple"]),
        (2, False): "".join(["headway", "-s\u0101mple"]),
        (4, False): "".join(["headway", "-s\U0001f600mple"]),
    }
    encodings = {1: "latin-1", 2: "utf-16-" + sys.byteorder[0] + "e", 4: "utf-32-" + sys.byteorder[0] + "e"}
    places = {True: set(), False: set()}
    for (kind, ascii_), text in samples.items():
        places[ascii_].add(_memory(id(text), sys.getsizeof(text)).find(text.encode(encodings[kind])))
    layout.string_state = _STRING_STATE
    layout.string_ascii = _only("the text of a str", places[True])
    layout.string_other = _only("the text of a str", places[False])
    shifts = {
        shift
        for shift in range(16)
        if all(_bits(id(text), shift) == (kind, ascii_, len(text)) for (kind, ascii_), text in samples.items())
    }
    layout.string_kind_shift = _only("the kind of a str", shifts)
    if layout.string_ascii < 0 or layout.string_other < 0:
        raise LayoutError("cannot find the text of a str")


def _bits(address, shift):
    state = struct.unpack("I", _memory(address + _STRING_STATE, 4))[0] >> shift
    return state & 7, bool(state >> 4 & 1), _words(address + _HEAD, 1)[0]


def _thread_state():
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return get()


def _readable():
    """Return the ranges of memory that can be read: looking through a pointer elsewhere would crash."""
    ranges = []
    with open("/proc/self/maps", "rb", buffering=0) as file:
        text = b"".join(iter(lambda: file.read(65536), b""))
    for line in text.splitlines():
        addresses, rights = line.split(None, 2)[:2]
        if rights.startswith(b"r"):
            start, end = addresses.split(b"-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges


def _frame_address(frame):
    # PyFrameObject: head, f_back, f_frame.
    return ctypes.c_size_t.from_address(id(frame) + _HEAD + _WORD).value


def _sample(state, readable):
    """Return the words of the thread state, of what they point to, of this frame and its caller, and what to find there.

    All is read in this very frame, by C alone: a helper of ours would be the innermost frame, and what has returned is
    overwritten.
    """
    me = sys._getframe()
    caller = me.f_back
    here, there = _frame_address(me), _frame_address(caller)
    for address in (here, there):
        if address % _WORD or not any(start <= address < end - _FRAME_WORDS * _WORD for start, end in readable):
            raise LayoutError("cannot find frames")
    words = (ctypes.c_size_t * _THREAD_WORDS).from_address(state)[:]
    pointed = {}
    for i, word in enumerate(words):
        if word and word % _WORD == 0 and any(start <= word < end - 2 * _WORD for start, end in readable):
            pointed[i] = (ctypes.c_size_t * 2).from_address(word)[:]
    return _Sample(
        words,
        pointed,
        (ctypes.c_size_t * _FRAME_WORDS).from_address(here)[:],
        (ctypes.c_size_t * _FRAME_WORDS).from_address(there)[:],
        here,
        there,
        id(me.f_code),
        id(caller.f_code) + caller.f_lasti,
    )


_Sample = collections.namedtuple("_Sample", "thread pointed frame calling here there code instruction")


def _find_frame(layout):
    state = _thread_state()
    readable = _readable()

    def deeper():
        return _sample(state, readable)

    samples = [_sample(state, readable), deeper()]

    def places(words, value, mask=-1):
        return {i * _WORD for i, word in enumerate(words) if word & mask == value}

    def common(what, found):
        return _only(what, set.intersection(*found))

    direct = set.intersection(*(places(s.thread, s.here) for s in samples))
    if sys.version_info >= (3, 13):
        layout.thread_frame, layout.cframe_frame = _only("the innermost frame", direct), -1
    else:
        # Through a _PyCFrame, which stands near the beginning; 3.12 has another way to the frame, later on.
        through = [{(i * _WORD, j) for i, words in s.pointed.items() for j in places(words, s.here)} for s in samples]
        layout.thread_frame, layout.cframe_frame = min(set.intersection(*through), default=(0, 0))
    layout.frame_code = common("a frame's code object", [places(s.frame, s.code, ~_TAGS) for s in samples])
    layout.frame_previous = common("a frame's caller", [places(s.frame, s.there) for s in samples])
    # The caller stands still at its call.
    layout.frame_instruction = common(
        "a frame's instruction",
        [places(s.calling, s.instruction + layout.code_instructions) for s in samples],
    )
