"""Code objects in the form of a recording (struct hw__meta_code of native/trace/format.h). Imports no numpy."""

import struct
from typing import NamedTuple

from headway.traces.frames import Frame, text
from headway.traces.linetable import lines

__all__ = ["CODE", "ENCODINGS", "Code", "code_of"]

CODE = struct.Struct("<8xIiIIIBB2x")
"""struct hw__meta_code, without the two names and the table that follow it."""
ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
"""The encoding of a str's text in memory, by the number of bytes per character."""


class Code(NamedTuple):
    """A code object."""

    filename: str
    qualname: str
    first_line: int
    linetable: bytes

    def frame(self, offset: int) -> Frame:
        """Return the frame at a byte offset from the first instruction."""
        line = lines(self.linetable, self.first_line, [offset])[offset]
        return Frame(self.filename, line, self.qualname, self.first_line)


def code_of(record: bytes) -> tuple[int, Code | None]:
    """Return a record's number of a code object, from 1, and the code object; None if the record makes no sense."""
    (
        number,
        first_line,
        filename_bytes,
        qualname_bytes,
        linetable_bytes,
        filename_kind,
        qualname_kind,
    ) = CODE.unpack_from(record)
    filename_end = CODE.size + filename_bytes
    qualname_end = filename_end + qualname_bytes
    sane = (
        number
        and filename_kind in ENCODINGS
        and qualname_kind in ENCODINGS
        and filename_bytes % filename_kind == 0
        and qualname_bytes % qualname_kind == 0
        and qualname_end + linetable_bytes <= len(record)
    )
    if not sane:
        return number, None
    return number, Code(
        text(record[CODE.size : filename_end], ENCODINGS[filename_kind]),
        text(record[filename_end:qualname_end], ENCODINGS[qualname_kind]),
        max(first_line, 0),
        record[qualname_end : qualname_end + linetable_bytes],
    )
