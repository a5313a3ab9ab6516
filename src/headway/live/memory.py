"""Reads and writes the memory of another process, and finds the symbols that its CPython exports.

Symbols are looked up in memory, not in files: files may be in a container, be replaced by an upgrade, or be anything at
all. The owner of the process may forge its memory, so everything that is read has bounds. Only addresses that the
caller names are written, and these can only be memory of that very process.
"""

import contextlib
import os
import re
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import final

__all__ = ["ILL_FORMED", "Memory", "mappings", "python_symbols"]

_PAGE = 4096
_SYMBOL = struct.Struct("<IBBHQQ")
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH = 4, 5, 6, 0x6FFFFEF5
_FUNCTION, _OBJECT = 2, 1  # STT_FUNC, STT_OBJECT
_MACHINES = {"x86_64": 62, "aarch64": 183}
_MOST_SEGMENTS = 128
_MOST_TAGS = 1024
_MOST_TRIES = 1 << 16
"""The limit of symbols to examine for one name: a chain of a hash table has a handful."""
_PATIENCE_S = 5.0
"""The limit for all images of a process together: a forged process may have tens of thousands."""

ILL_FORMED = (OSError, struct.error, ArithmeticError, ValueError, IndexError)
"""The exceptions that reading may raise if a process's memory is not what it seems."""


@final
class Memory:
    """The memory of a process. After the process has ended or executed another program, the memory is empty."""

    def __init__(self, pid: int, *, read_only: bool = False) -> None:
        """Open the memory. Raises OSError if the process has ended, or may not be traced."""
        rights = os.O_RDONLY if read_only else os.O_RDWR
        self._file = os.open(f"/proc/{pid}/mem", rights | os.O_CLOEXEC)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the memory; the process goes on as before."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises OSError if not all of them are mapped."""
        if not 0 <= address < 1 << 63:
            raise OSError(14, "its memory cannot be read")
        found = os.pread(self._file, size, address)
        if len(found) != size:
            raise OSError(14, "its memory cannot be read")
        return found

    def write(self, address: int, data: bytes) -> None:
        """Write all of `data`. Raises OSError."""
        if not 0 <= address < 1 << 63 or os.pwrite(self._file, data, address) != len(data):
            raise OSError(14, "its memory cannot be written")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` 64-bit words."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count))

    def halves(self, address: int, count: int) -> tuple[int, ...]:
        """Return `count` 32-bit words."""
        return struct.unpack(f"<{count}I", self.read(address, 4 * count))


def mappings(pid: int) -> Iterator[tuple[int, int, str, int, bool, str]]:
    """Yield (start, end, rights, offset, of a file, path) of each mapping of a process. Raises OSError."""
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        addresses, rights, offset, _, inode, *name = line.split(None, 5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        yield start, end, rights, int(offset, 16), inode != "0", name[0] if name else ""


def python_symbols(pid: int, memory: Memory, wanted: tuple[str, ...], others: tuple[str, ...] = ()) -> dict[str, int]:
    """Return the addresses of symbols in the process's CPython; {} if no image defines all `wanted` ones.

    Raises:
        OSError: The process has ended.
    """
    images = [
        (start, path)
        for start, _, rights, offset, is_file, path in mappings(pid)
        if is_file and not offset and "r" in rights
    ]
    # Images named like Python first; then all others, as any program may embed an interpreter.
    images.sort(key=lambda one: re.search(r"python[^/]*$", one[1]) is None)
    deadline = time.monotonic() + _PATIENCE_S
    for base, _ in images:
        if time.monotonic() > deadline:
            break
        with contextlib.suppress(*ILL_FORMED):  # no ELF image, or not mapped as one
            found = _defined(memory, base, (*wanted, *others))
            if all(name in found for name in wanted):
                return found
    return {}


def _defined(memory: Memory, base: int, names: tuple[str, ...]) -> dict[str, int]:
    """Return the addresses of the symbols with these names that the ELF image mapped at `base` defines."""
    header = memory.read(base, 64)
    kind, machine = struct.unpack_from("<HH", header, 16)
    if header[:6] != b"\x7fELF\x02\x01" or kind not in (2, 3) or machine != _MACHINES.get(os.uname().machine):
        return {}
    offset, size, count = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54)
    if size < 56 or count > _MOST_SEGMENTS:
        return {}
    segments = [struct.unpack("<IIQQQQQQ", memory.read(base + offset + i * size, 56)) for i in range(count)]
    loads = [segment for segment in segments if segment[0] == 1]  # PT_LOAD
    dynamic = next((segment for segment in segments if segment[0] == 2), None)  # PT_DYNAMIC
    if not loads or dynamic is None:
        return {}
    bias = base - (loads[0][3] & -_PAGE)
    words = memory.words(bias + dynamic[3], min(dynamic[6] // 16, _MOST_TAGS) * 2)
    tags = dict(zip(words[::2], words[1::2], strict=True))
    # glibc replaces these entries by addresses, musl keeps the values of the file.
    tables = {
        tag: tags[tag] + (bias if tags[tag] < bias else 0)
        for tag in (_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_GNU_HASH)
        if tag in tags
    }
    if _DT_STRTAB not in tables or _DT_SYMTAB not in tables:
        return {}
    found = {}
    for name in names:
        wanted = name.encode() + b"\0"
        for index in _candidates(memory, tables, name):
            text, info, _, section, value, _ = _SYMBOL.unpack(memory.read(tables[_DT_SYMTAB] + index * 24, 24))
            is_defined = info & 15 in (_FUNCTION, _OBJECT) and section
            if is_defined and memory.read(tables[_DT_STRTAB] + text, len(wanted)) == wanted:
                found[name] = bias + value
    return found


def _candidates(memory: Memory, tables: dict[int, int], name: str) -> Iterator[int]:
    """Yield the indices of symbols that may have the name."""
    if _DT_GNU_HASH in tables:
        at = tables[_DT_GNU_HASH]
        buckets, first, bloom, _ = memory.halves(at, 4)
        code = 5381
        for byte in name.encode():
            code = code * 33 + byte & 0xFFFFFFFF
        at += 16 + 8 * bloom
        index = memory.halves(at + 4 * (code % buckets), 1)[0]
        for _ in range(_MOST_TRIES):
            if index < first:
                return
            seen = memory.halves(at + 4 * buckets + 4 * (index - first), 1)[0]
            if seen | 1 == code | 1:
                yield index
            if seen & 1:  # the chain's end
                return
            index += 1
    elif _DT_HASH in tables:
        yield from range(1, min(memory.halves(tables[_DT_HASH] + 4, 1)[0], _MOST_TRIES))
