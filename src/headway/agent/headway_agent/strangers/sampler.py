"""Reads, from outside a process and at random times, which instruction a thread of its Python runs.

This file is run as a script, by `samples`, without any other module of the agent. Its argument is the layout of the
process's memory as JSON, and its standard input is a pipe. A byte there, or the end of the process, ends the sampling;
then [code object's address, offset of the instruction, samples] of each instruction goes to standard output as JSON.

The process is not stopped meanwhile, so a value may change between two reads. Such a sample names no instruction of any
code object, and the other side counts it as nobody's.
"""

import json
import os
import random
import select
import struct
import sys

__all__ = ["main", "place_of"]

_MEAN_S = 0.0005
_WORD = struct.Struct("<Q")
_TAG = 7
"""The bits of a reference that CPython 3.14 and later use for itself."""


def place_of(memory, layout):
    """Return (address of the code object, offset of the instruction in bytes) of the thread's innermost frame.

    Raises OSError or struct.error if the memory has changed meanwhile, or the process has ended.
    """
    # No function in Python makes the reads: if a thread reads its own place, that is the place of this frame.
    (at,) = _WORD.unpack(os.pread(memory, 8, layout["thread"] + layout["thread_to"]))
    if layout["chain"] is not None:
        (at,) = _WORD.unpack(os.pread(memory, 8, at + layout["chain"]))
    if not at:
        return 0, 0
    last = layout["instruction"]
    frame = os.pread(memory, max(last, layout["code"]) + 8, at)
    code = _WORD.unpack_from(frame, layout["code"])[0] & ~_TAG
    if layout["unit"]:
        return code, struct.unpack_from("<i", frame, last)[0] * layout["unit"]
    return code, _WORD.unpack_from(frame, last)[0] - code - layout["base"]


def main():
    """Sample until a byte comes."""
    layout = json.loads(sys.argv[1])
    # The process that started this one must have no child of which its function could hear.
    if os.fork():
        os._exit(0)
    memory, counts = layout["memory"], {}
    while not select.select([0], [], [], random.uniform(0.5, 1.5) * _MEAN_S)[0]:
        try:
            place = place_of(memory, layout)
        except OSError:
            continue
        except struct.error:
            break
        counts[place] = counts.get(place, 0) + 1
    sys.stdout.write(json.dumps([[code, offset, count] for (code, offset), count in counts.items()]))


if __name__ == "__main__":
    main()
