"""The texts, frames and stacks that a Perfetto sequence writes once and then refers to by number.

Numbers begin at 1 and are dense, so that a number takes few bytes in every packet that has it.
"""

from collections.abc import Iterator
from typing import final

import numpy as np
from numpy.typing import NDArray

from headway.printable import printable
from headway.traces.export.protobuf import field
from headway.traces.export.text import location
from headway.traces.model import Trace

__all__ = ["Interned", "Texts"]

_PACKET_BYTES = 1 << 18
# Fields of InternedData.
_CATEGORIES, _NAMES, _NOTE_NAMES, _NOTE_VALUES = 1, 2, 3, 29
_FUNCTIONS, _PATHS, _FRAMES, _CALLSTACKS = 5, 18, 6, 7


@final
class Texts:
    """The texts of one kind, each with its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str) -> int:
        """Return a text's number; a new text gets the next one."""
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    def encoded(self, tag: int) -> Iterator[bytes]:
        """Yield each text as a field of InternedData."""
        for text, number in self._numbers.items():
            yield field(tag, field(1, number) + field(2, text))


@final
class Interned:
    """All texts, frames and stacks of one sequence."""

    def __init__(self) -> None:
        self.categories = Texts()
        self.names = Texts()
        self.note_names = Texts()
        self.note_values = Texts()
        self._functions = Texts()
        self._paths = Texts()
        self._frames: list[bytes] = []
        self._callstacks: list[bytes] = []

    @property
    def callstacks(self) -> int:
        """The number of stacks."""
        return len(self._callstacks)

    def locations(self, trace: Trace, used: NDArray, unknown: str) -> NDArray[np.uint32]:
        """Return, for each used stack, the number of its innermost frame's name; `unknown` names the unknown stack."""
        found = np.zeros(len(trace.stack_frame), dtype=np.uint32)
        for stack in used.tolist():
            found[stack] = self.names.number(
                printable(location(trace.frames[trace.stack_frame[stack]])) if stack else printable(unknown)
            )
        return found

    def stacks(self, trace: Trace, used: NDArray) -> NDArray[np.uint32]:
        """Return the number of each used stack. The unknown stack becomes a frame `?`."""
        needed = np.zeros(len(trace.stack_parent), dtype=bool)
        level = used
        while len(level):
            needed[level] = True
            level = np.unique(trace.stack_parent[level])
            level = level[~needed[level]]
        frames: dict[int, bytes] = {}
        outer_to_inner: dict[int, bytes] = {}
        found = np.zeros(len(trace.stack_parent), dtype=np.uint32)
        of_use = set(used.tolist())
        for stack in np.flatnonzero(needed).tolist():  # parents before their children
            frame = int(trace.stack_frame[stack])
            if frame not in frames:
                frames[frame] = field(2, self._frame(trace, frame))
            parent = int(trace.stack_parent[stack])
            outer_to_inner[stack] = (outer_to_inner[parent] if parent else b"") + frames[frame]
            if stack in of_use:
                found[stack] = len(self._callstacks) + 1
                self._callstacks.append(field(1, int(found[stack])) + outer_to_inner[stack])
        return found

    def _frame(self, trace: Trace, index: int) -> int:
        frame = trace.frames[index]
        number = len(self._frames) + 1
        encoded = field(1, number) + field(2, self._functions.number(printable(frame.function)))
        if frame.filename:
            encoded += field(5, self._paths.number(printable(frame.filename)))
        self._frames.append(encoded + (field(6, frame.line) if frame.line else b""))
        return number

    def encoded(self) -> Iterator[bytes]:
        """Yield InternedData messages of moderate size."""
        chunk = bytearray()
        for one in self._entries():
            chunk += one
            if len(chunk) > _PACKET_BYTES:
                yield bytes(chunk)
                chunk.clear()
        yield bytes(chunk)

    def _entries(self) -> Iterator[bytes]:
        yield from self.categories.encoded(_CATEGORIES)
        yield from self.names.encoded(_NAMES)
        yield from self.note_names.encoded(_NOTE_NAMES)
        yield from self.note_values.encoded(_NOTE_VALUES)
        yield from self._functions.encoded(_FUNCTIONS)
        yield from self._paths.encoded(_PATHS)
        yield from (field(_FRAMES, frame) for frame in self._frames)
        yield from (field(_CALLSTACKS, callstack) for callstack in self._callstacks)
