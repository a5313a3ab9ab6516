"""Reads the meta records of a trace file: GILs, names of threads, and stacks.

In the file, the ids of stacks and types are each GIL's own; `Records.tables` puts all GILs into one space.

The bytes may be damaged. Records that make no sense are skipped and counted, and no number in a record decides how much
memory is allocated.
"""

import struct
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from headway.traces import format as hwt
from headway.traces.codes import CODE, Code, code_of
from headway.traces.frames import BEGINS, CUT, OURS, Frame, text
from headway.traces.linetable import lines
from headway.traces.model import Gil
from headway.traces.own_code import Stacks, without_own_code

__all__ = ["Name", "Records", "Tables"]

_META = struct.Struct("<HHI")
_GIL = struct.Struct("<8xIIQq")
_NODE = struct.Struct("<8xIIIi")
_NAME = struct.Struct("<8xiIq")
_TYPE = struct.Struct("<8xII")
_NOTE = struct.Struct("<8xI4x")
_LEAST_BYTES = {
    hwt.META_GIL: _GIL.size,
    hwt.META_GIL_END: _GIL.size,
    hwt.META_CODE: CODE.size,
    hwt.META_NODE: _NODE.size,
    hwt.META_NAME: _NAME.size,
    hwt.META_TYPE: _TYPE.size,
    hwt.META_NOTE: _NOTE.size,
}


def _cut_roots(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of the outermost frames of the stacks that have the greatest depth that is recorded."""
    if len(parent) <= hwt.MAX_DEPTH:
        return np.zeros(0, dtype=np.int64)
    # Follow the callers MAX_DEPTH - 1 times, in steps of 1, 2, 4, ... calls: 1, 3, 7, 15, ... in all.
    outer, step = parent, parent
    for _ in range(hwt.MAX_DEPTH.bit_length() - 2):
        step = step[step]
        outer = outer[step]
    found: NDArray[np.int64] = np.unique(outer)
    return found[found > 0]


class Name(NamedTuple):
    """A name that Python gave to a native thread, and when."""

    time_ns: int
    tid: int
    name: str


@final
@dataclass
class Tables:
    """The stacks and types of all GILs, each in one space; the fields are those of `Trace`."""

    stack_parent: NDArray[np.int64]
    stack_frame: NDArray[np.int64]
    frames: tuple[Frame, ...]
    types: tuple[str, ...]
    stack_ids: dict[int, tuple[NDArray[np.int64], int]]
    """For each GIL, its stack ids in ascending order, and the index of the first of them."""
    type_indices: dict[int, dict[int, int]]
    shown: NDArray[np.int64] | None = None
    """For each stack, the one that stands for it (headway.traces.own_code); None: each stack itself."""

    def stacks(self, gil: int, ids: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], int]:
        """Return the stacks' indices for their ids in a GIL, and the number of unknown ids; their indices are 0."""
        known, first = self.stack_ids.get(gil, (np.zeros(0, dtype=np.int64), 1))
        if not len(known):
            return np.zeros_like(ids), int(np.count_nonzero(ids))
        if known[-1] == len(known):  # no id is missing: an id is a place
            found = ids <= len(known)
            indices = np.where(found & (ids > 0), ids + np.uint32(first - 1), np.uint32(0))
        else:
            place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            found = known[place] == ids
            indices = np.where(found, place + first, 0).astype(np.uint32)
            found |= ids == 0
        if self.shown is not None:
            indices = self.shown[indices]
        return indices.astype(np.uint32, copy=False), len(ids) - int(np.count_nonzero(found))

    def type_ids(self, gil: int, ids: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], int]:
        """Return the types' indices for their ids in a GIL, and the number of unknown ids; their indices are 0."""
        known = self.type_indices.get(gil, {})
        distinct, inverse = np.unique(ids, return_inverse=True)
        indices = np.array([known.get(one, 0) for one in distinct.tolist()], dtype=np.uint32)
        missing = (distinct > 0) & (indices == 0)
        return indices[inverse], int(np.count_nonzero(missing[inverse]))


@final
@dataclass
class Records:
    """The contents of one file's meta chunks, collected chunk by chunk with `add`."""

    names: list[Name] = field(default_factory=list)
    notes: list[bytes] = field(default_factory=list)
    """The texts of notes (notes.py)."""
    damaged_bytes: int = 0
    _begun: dict[int, tuple[bool, int, int]] = field(default_factory=dict)
    _ended: dict[int, int] = field(default_factory=dict)
    _lives: Counter[int] = field(default_factory=Counter)
    _codes: dict[int, dict[int, Code]] = field(default_factory=lambda: defaultdict(dict))
    _nodes: dict[int, list[NDArray[np.void]]] = field(default_factory=lambda: defaultdict(list))
    _types: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, owner: int, data: bytes) -> None:
        """Add the records of a chunk of the GIL `owner`."""
        at = 0
        while at < len(data):
            if len(data) - at < _META.size:
                self.damaged_bytes += len(data) - at
                return
            kind, _, size = _META.unpack_from(data, at)
            # A wrong size hides where the next record begins, so the rest of the chunk is lost.
            if size < _META.size or size % 8 or size > len(data) - at:
                self.damaged_bytes += len(data) - at
                return
            if kind == hwt.META_NODE and size == _NODE.size:
                at += self._add_nodes(owner, data, at)
                continue
            if size < _LEAST_BYTES.get(kind, hwt.CHUNK_BYTES) or not self._add(owner, kind, data[at : at + size]):
                self.damaged_bytes += size
            at += size

    def _add_nodes(self, owner: int, data: bytes, at: int) -> int:
        """Add all nodes that follow one another from `at` on, and return the number of their bytes."""
        if data[at + _NODE.size : at + _NODE.size + 2] != data[at : at + 2]:
            nodes = np.frombuffer(data, hwt.META_NODE_DTYPE, 1, at)
        else:
            nodes = np.frombuffer(data, hwt.META_NODE_DTYPE, (len(data) - at) // _NODE.size, at)
            meta = nodes["meta"]
            other = np.flatnonzero((meta["type"] != hwt.META_NODE) | (meta["bytes"] != _NODE.size))
            nodes = nodes[: other[0]] if len(other) else nodes
        self._nodes[owner].append(nodes)
        return nodes.nbytes

    def _add(self, owner: int, kind: int, record: bytes) -> bool:
        """Add one record, and return whether it makes sense."""
        if kind == hwt.META_CODE:
            return self._add_code(owner, record)
        if kind == hwt.META_NAME:
            tid, size, time_ns = _NAME.unpack_from(record)
            name = record[_NAME.size : _NAME.size + size]
            if len(name) < size:
                return False
            self.names.append(Name(time_ns, tid, text(name)))
            return True
        if kind == hwt.META_NOTE:
            (size,) = _NOTE.unpack_from(record)
            self.notes.append(record[_NOTE.size : _NOTE.size + size])
            return True
        if kind == hwt.META_TYPE:
            number, size = _TYPE.unpack_from(record)
            name = record[_TYPE.size : _TYPE.size + size]
            if len(name) < size or not number or number in self._types[owner]:
                return False
            self._types[owner][number] = text(name)
            return True
        if kind in {hwt.META_GIL, hwt.META_GIL_END}:
            index, main, address, time_ns = _GIL.unpack_from(record)
            if index >= hwt.NO_GIL or time_ns < 0:
                return False
            if kind == hwt.META_GIL:
                self._begun.setdefault(index, (main != 0, address, time_ns))
                self._lives[index] += 1
            else:
                self._ended[index] = max(time_ns, self._ended.get(index, 0))
                self._lives[index] -= 1
            return True
        return False

    def _add_code(self, owner: int, record: bytes) -> bool:
        number, code = code_of(record)
        if code is None or number in self._codes[owner]:
            return False
        self._codes[owner][number] = code
        return True

    def gils(self, at_least: int, start_ns: int) -> list[Gil]:
        """Return the GILs by index; a GIL without a record counts as begun with the trace.

        Several GILs that had a number one after the other are as one, from the first one's begin to the last one's end.
        """
        found = []
        for index in range(max(at_least, *(index + 1 for index in (*self._begun, *self._ended, -1)))):
            main, address, time_ns = self._begun.get(index, (index == 0, 0, start_ns))
            end_ns = self._ended.get(index) if self._lives[index] <= 0 else None
            found.append(Gil(index, main, address, time_ns, end_ns))
        return found

    def tables(self, *, has_gil: bool = True) -> Tables:
        """Put all GILs' stacks and types into one space each.

        Without a GIL, more of Headway's own code is told as it is (headway.traces.own_code).
        """
        frames: dict[Frame, int] = {Frame("", 0, "?"): 0}
        parents, innermost = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        codes, gils = [np.zeros(1, dtype=np.int64)], [np.zeros(1, dtype=np.int64)]
        stack_ids = {}
        first = 1
        for gil in sorted(self._nodes):
            nodes = np.concatenate(self._nodes[gil])
            ids, places = np.unique(nodes["id"].astype(np.int64), return_index=True)
            ids, places = ids[ids > 0], places[ids > 0]
            self.damaged_bytes += (len(nodes) - len(ids)) * _NODE.size
            nodes = nodes[places]
            if not len(nodes):
                continue
            parent = nodes["parent"].astype(np.int64)
            place = np.minimum(np.searchsorted(ids, parent), len(ids) - 1)
            # A caller that makes no sense counts as unknown: the stack ends there.
            good = (ids[place] == parent) & (parent < ids)
            parents.append(np.where(good, place + first, 0))
            codes.append(nodes["code"].astype(np.int64) << 8 | gil)  # each GIL numbers its own
            gils.append(np.full(len(nodes), gil, dtype=np.int64))
            bad_code = self._frames(gil, nodes, frames, innermost)
            self.damaged_bytes += int(np.count_nonzero((~good & (parent != 0)) | bad_code)) * _NODE.size
            stack_ids[gil] = (ids, first)
            first += len(ids)

        stack_parent, stack_frame, code, of_gil = map(np.concatenate, (parents, innermost, codes, gils))
        # A stack of just that depth may be whole; its outermost frame is also that of all other stacks of the thread.
        begins = np.array([one.function in BEGINS for one in frames], dtype=np.bool_)
        roots = _cut_roots(stack_parent)
        roots = roots[~begins[stack_frame[roots]]]
        if len(roots):
            # Stack 1 becomes the frame CUT, which stands for the callers that are not recorded; all other stacks move
            # up by one.
            stack_parent = np.insert(np.where(stack_parent > 0, stack_parent + 1, 0), 1, 0)
            stack_frame = np.insert(stack_frame, 1, frames.setdefault(CUT, len(frames)))
            code, of_gil = np.insert(code, 1, 0), np.insert(of_gil, 1, 0)
            stack_parent[roots + 1] = 1
            stack_ids = {gil: (ids, first + 1) for gil, (ids, first) in stack_ids.items()}

        ours = len(stack_parent)
        shown = without_own_code(Stacks(stack_parent, stack_frame, tuple(frames), code, of_gil, has_gil), ours)
        if shown is not None and (shown == ours).any():
            stack_parent = np.append(stack_parent, 0)
            stack_frame = np.append(stack_frame, frames.setdefault(OURS, len(frames)))

        types: dict[str, int] = {"": 0}
        type_indices = {
            gil: {number: types.setdefault(name, len(types)) for number, name in sorted(known.items())}
            for gil, known in sorted(self._types.items())
        }
        return Tables(
            stack_parent=stack_parent,
            stack_frame=stack_frame,
            frames=tuple(frames),
            types=tuple(types),
            stack_ids=stack_ids,
            type_indices=type_indices,
            shown=shown,
        )

    def _frames(
        self, gil: int, nodes: NDArray[np.void], frames: dict[Frame, int], innermost: list[NDArray[np.int64]]
    ) -> NDArray[np.bool_]:
        """Add the frames of a GIL's nodes, and return a mask of the nodes whose code object is unknown."""
        pairs = nodes["code"].astype(np.int64) << 32 | (nodes["offset"].astype(np.int64) + 2**31)
        distinct, inverse = np.unique(pairs, return_inverse=True)
        of_code: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for place, pair in enumerate(distinct.tolist()):
            of_code[pair >> 32 & 0xFFFF_FFFF].append((place, (pair & 0xFFFF_FFFF) - 2**31))
        index = np.zeros(len(distinct), dtype=np.int64)
        bad = np.zeros(len(distinct), dtype=np.bool_)
        for number, asked in of_code.items():
            code = self._codes[gil].get(number)
            if code is None:
                bad[[place for place, _ in asked]] = True
                continue
            line_of = lines(code.linetable, code.first_line, (offset for _, offset in asked))
            for place, offset in asked:
                frame = Frame(code.filename, line_of[offset], code.qualname, code.first_line)
                index[place] = frames.setdefault(frame, len(frames))
        innermost.append(index[inverse])
        return bad[inverse]
