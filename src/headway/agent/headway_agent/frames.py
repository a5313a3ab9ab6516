"""Finds out where the running interpreter keeps frames and code objects, so that C can read stacks.

CPython's structs differ from version to version and from build to build. Instead of using a table of offsets, this
module looks for known values (`id(code)`, `id(code.co_filename)`, ...) in the memory of known objects. A value that is
not found in exactly one place raises LayoutError. Before a layout is used, `check` lets C walk its own stack by it, and
compares every frame.

No module is imported that the program might not have: it may have one of its own by that name.

CPython 3.11 and later, where a frame is a _PyInterpreterFrame (Include/internal/pycore_frame.h).
"""

import sys

__all__ = ["Layout", "LayoutError", "check", "find"]

_CodeType = type((lambda: None).__code__)
_WORD = 8  # the library supports no machine with another size
_TAGS = 7  # the low bits of a pointer, which CPython 3.14 uses as tags
_THREAD_WORDS = 48  # of PyThreadState: the frame is near its beginning
_FRAME_WORDS = 12
_HEAD = object.__basicsize__
_STRING_STATE = _HEAD + 2 * _WORD  # PyASCIIObject: head, length, hash, state
_DEPTH = 64
_CALLS = 64  # CPython specialises a call at its second to eighth execution

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


class Layout:
    """struct hw_stack_layout of native/include/headway/trace.h."""

    def __init__(self):
        self.code_type = id(_CodeType)
        self.shim_code = 0
        self.cleanup_code = 0
        for name in _OFFSETS:
            setattr(self, name, 0)
        self.code_instructions = _CodeType.__basicsize__
        self.object_bytes = _HEAD

    def packed(self):
        """Return the layout as the struct's bytes."""
        words = [one.to_bytes(_WORD, sys.byteorder) for one in (self.code_type, self.shim_code, self.cleanup_code)]
        offsets = [getattr(self, name).to_bytes(4, sys.byteorder, signed=True) for name in _OFFSETS]
        return b"".join(words + offsets)


def find(library):
    """Return this interpreter's Layout; `library` reads memory. Raises LayoutError."""
    layout = Layout()
    finder = _Finder(library)
    finder.find_type(layout)
    finder.find_code(layout)
    finder.find_string(layout)
    finder.find_frame(layout, library.thread_state())
    if sys.version_info >= (3, 13):
        layout.shim_code = id(None)
        layout.cleanup_code = _cleanup_code(layout, library)
    return layout


class _Made:
    def __init__(self, walk, layout, walked):
        walked.append(walk(layout, 2))


def _cleanup_code(layout, library):
    """Return the code of the frame below the `__init__` of a call that is specialised; 0 if there is no such frame.

    CPython 3.13 and later run the call of a class that is often made, and its `__init__`, without a call in C. The
    frame has a code object that Python never shows (_Py_InitCleanup in CPython's specialize.c).
    """
    packed, walked = layout.packed(), []
    for _ in range(_CALLS):
        _Made(library.walk, packed, walked)
        below = memoryview(walked.pop()).cast("Q")[2]  # struct hw_trace_frame
        if below != id(sys._getframe().f_code):
            return below
    return 0


def check(layout, library):
    """Let `library` walk the present stack, and compare the frames. Raises LayoutError.

    A frame that is not Python's marks each call of the interpreter by C. In CPython 3.12 that frame has a code object
    that Python never shows, and that is learnt here; later versions have None there.
    """
    walked = library.walk(layout.packed(), _DEPTH)
    expected = []
    frame = sys._getframe()
    while frame is not None and len(expected) < _DEPTH:
        expected.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    words = memoryview(walked).cast("q").tolist()  # struct hw_trace_frame
    seen = list(zip(words[::2], words[1::2]))
    count = len(seen)
    unknown = {code for code, _ in seen} - {code for code, _ in expected}
    if len(unknown) == 1 and sys.version_info >= (3, 12):
        hidden = unknown.pop()
        if sys.version_info < (3, 13):
            layout.shim_code = hidden
        else:
            layout.cleanup_code = hidden  # a profiler may have kept _cleanup_code() from learning it
        seen = [(code, offset) for code, offset in seen if code != hidden]
    del expected[len(seen) if count == _DEPTH else _DEPTH :]
    # The instruction of this function itself has moved on since the walk.
    if [code for code, _ in seen] != [code for code, _ in expected] or seen[1:] != expected[1:]:
        raise LayoutError("stacks are not where they should be")


def _only(what, places):
    if len(places) != 1:
        raise LayoutError("cannot find %s" % what)
    return next(iter(places))


class _Sample:
    """The result of `_Finder._sample`."""

    def __init__(self, thread, through, frame, calling, above, here, there, code, instruction):
        self.thread = thread
        self.through = through
        self.frame = frame
        self.calling = calling
        self.above = above
        self.here = here
        self.there = there
        self.code = code
        self.instruction = instruction


class _Finder:
    """Fills in a Layout, step by step; `library` reads memory."""

    def __init__(self, library):
        self._memory = library.memory
        self._holds = library.holds

    def _words(self, address, count):
        return memoryview(self._memory(address, count * _WORD)).cast("Q").tolist()

    def find_type(self, layout):
        sample = self.__init__.__code__
        words = self._words(id(sample), _HEAD // _WORD)
        places = {i * _WORD for i, word in enumerate(words) if word == id(_CodeType)}
        layout.object_type = _only("an object's type", places)

    def find_code(self, layout):
        codes = []
        for i in range(1, 5):
            source = "%sclass C%d:\n def f(self):\n  return %d\n" % ("\n" * (i * 97), i, i)
            module = compile(source, "<headway %d>" % i, "exec")
            body = next(c for c in module.co_consts if isinstance(c, _CodeType))
            codes.append(next(c for c in body.co_consts if isinstance(c, _CodeType)))
        size = _CodeType.__basicsize__
        for field, attribute in (
            ("filename", "co_filename"),
            ("qualname", "co_qualname"),
            ("linetable", "co_linetable"),
        ):
            places = [
                {
                    i * _WORD
                    for i, word in enumerate(self._words(id(code), size // _WORD))
                    if word == id(getattr(code, attribute))
                }
                for code in codes
            ]
            setattr(layout, "code_" + field, _only(attribute, set.intersection(*places)))
        places = [
            {
                i * 4
                for i, word in enumerate(memoryview(self._memory(id(code), size // 4 * 4)).cast("i"))
                if word == code.co_firstlineno
            }
            for code in codes
        ]
        layout.code_first_line = _only("co_firstlineno", set.intersection(*places))

    def find_string(self, layout):
        # One string of each kind, not interned, and longer than any string that CPython keeps as a singleton.
        samples = {
            (1, True): "".join(["headway", "-sample"]),
            (1, False): "".join(["headway", "-s\xe4mple"]),
            (2, False): "".join(["headway", "-s\u0101mple"]),
            (4, False): "".join(["headway", "-s\U0001f600mple"]),
        }
        encodings = {1: "latin-1", 2: "utf-16-" + sys.byteorder[0] + "e", 4: "utf-32-" + sys.byteorder[0] + "e"}
        places = {True: set(), False: set()}
        for (kind, ascii_), text in samples.items():
            places[ascii_].add(self._memory(id(text), sys.getsizeof(text)).find(text.encode(encodings[kind])))
        layout.string_state = _STRING_STATE
        layout.string_ascii = _only("the text of a str", places[True])
        layout.string_other = _only("the text of a str", places[False])
        shifts = {
            shift
            for shift in range(16)
            if all(self._bits(id(text), shift) == (kind, ascii_, len(text)) for (kind, ascii_), text in samples.items())
        }
        layout.string_kind_shift = _only("the kind of a str", shifts)
        if layout.string_ascii < 0 or layout.string_other < 0:
            raise LayoutError("cannot find the text of a str")

    def _bits(self, address, shift):
        state = int.from_bytes(self._memory(address + _STRING_STATE, 4), sys.byteorder) >> shift
        return state & 7, bool(state >> 4 & 1), self._words(address + _HEAD, 1)[0]

    def _frame_address(self, frame):
        # PyFrameObject: head, f_back, f_frame.
        return self._words(id(frame) + _HEAD + _WORD, 1)[0]

    def _is_frame(self, address, frame):
        """Tell whether there is a frame at `address` that has this frame object."""
        return any(self._holds(address + i * _WORD, id(frame)) for i in range(_FRAME_WORDS))

    def _sample(self, state):
        """Return the words of the thread state, of this frame and of its caller, and the values to look for.

        `through` has the places from which two steps lead to this frame: the one of a word of the thread state, and the
        one behind the address in that word. `above` has the places of this frame from which two steps lead to the
        caller. C functions read everything within this very frame: a Python helper would itself be the innermost frame,
        and the frame of a function that has returned is overwritten.

        The thread state and the frames are this thread's. Anything may lie behind their words, and another thread may
        unmap it at any time: `holds` compares without reading.
        """
        me = sys._getframe()
        caller = me.f_back
        here, there = self._frame_address(me), self._frame_address(caller)
        if not self._is_frame(here, me) or not self._is_frame(there, caller):
            raise LayoutError("cannot find frames")
        holds = self._holds
        words = memoryview(self._memory(state, _WORD * _THREAD_WORDS)).cast("Q").tolist()
        through, above = set(), set()
        if sys.version_info < (3, 13):
            for i, word in enumerate(words):
                for j in (0, _WORD):
                    if holds(word + j, here):
                        through.add((i * _WORD, j))
        frame = memoryview(self._memory(here, _WORD * _FRAME_WORDS)).cast("Q").tolist()
        for i, word in enumerate(frame):
            if holds(word + i * _WORD, there):
                above.add(i * _WORD)
        return _Sample(
            words,
            through,
            frame,
            memoryview(self._memory(there, _WORD * _FRAME_WORDS)).cast("Q").tolist(),
            above,
            here,
            there,
            id(me.f_code),
            id(caller.f_code) + caller.f_lasti,
        )

    def find_frame(self, layout, state):
        def deeper():
            return self._sample(state)

        samples = [self._sample(state), deeper()]

        def places(words, value, mask=-1):
            return {i * _WORD for i, word in enumerate(words) if word & mask == value}

        def common(what, found):
            return _only(what, set.intersection(*found))

        direct = set.intersection(*(places(s.thread, s.here) for s in samples))
        if sys.version_info >= (3, 13):
            layout.thread_frame, layout.cframe_frame = _only("the innermost frame", direct), -1
        else:
            # A _PyCFrame near the beginning leads to the frame; 3.12 has another pointer to the frame further on.
            through = set.intersection(*(s.through for s in samples))
            layout.thread_frame, layout.cframe_frame = min(through, default=(0, 0))
        layout.frame_code = common("a frame's code object", [places(s.frame, s.code, ~_TAGS) for s in samples])
        callers = [places(s.frame, s.there) for s in samples]
        # With -X perf, C makes each call, and a frame of its own lies between.
        if getattr(sys, "is_stack_trampoline_active", bool)():
            callers = [s.above for s in samples]
        layout.frame_previous = common("a frame's caller", callers)
        # The caller's instruction stays at its call.
        layout.frame_instruction = common(
            "a frame's instruction",
            [places(s.calling, s.instruction + layout.code_instructions) for s in samples],
        )
