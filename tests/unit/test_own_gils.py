"""The GILs of sub-interpreters in the memory of a process: forged memory of this very process stands for CPython's."""

import ctypes
import os
import struct

import pytest

from headway.live import debug_offsets
from headway.live.own_gils import HeldGil, OwnGils

HEAD, ID, NEXT, CEVAL, OWN, LOCKED, HOLDER, TID = 0, 8, 16, 24, 64, 80, 72, 40
"""The offsets in the forged structs; those of CPython differ."""
PLACES = {(3, 13): (14, 25), (3, 14): (15, 28), (3, 15): (15, 31)}
"""The indices of `interpreter_state.ceval_gil` and `thread_state.native_thread_id`, as dumped from these interpreters."""


class Forged:
    """The memory of an interpreter; `monkeypatch` has it found in place of the real one."""

    def __init__(self, monkeypatch, version, cookie=b"xdebugpy", level=0xF, **changed):
        gil, tid = PLACES.get(version, (15, 28))
        self.words = [0] * 32
        self.words[0] = int.from_bytes(cookie, "little")
        self.words[1] = version[0] << 24 | version[1] << 16 | level << 4
        used = {5: 32 * 8, 7: ID, 8: NEXT, gil: CEVAL, gil + 1: OWN, gil + 3: LOCKED, gil + 4: HOLDER, tid: TID}
        for at, offset in used.items():
            self.words[at] = changed.get(f"at_{at}", offset)
        self.kept = []
        self.runtime = self.block(33 * 8)
        self.runtime[: 32 * 8] = struct.pack("<32Q", *self.words)
        self.last = self.runtime, 32 * 8
        monkeypatch.setattr(debug_offsets, "python_symbols", lambda *_: {"_PyRuntime": ctypes.addressof(self.runtime)})

    def block(self, size):
        self.kept.append(ctypes.create_string_buffer(size))
        return self.kept[-1]

    def add(self, number, *, shared=False, locked=1, tid=0):
        """Add an interpreter, and return the address of its own GIL."""
        state, interpreter = self.block(64), self.block(128)
        at = ctypes.addressof(interpreter)
        struct.pack_into("<Q", state, TID, tid)
        struct.pack_into("<Q", interpreter, ID, number)
        struct.pack_into("<Q", interpreter, CEVAL, 4096 if shared else at + OWN)
        struct.pack_into("<i", interpreter, LOCKED, locked)
        struct.pack_into("<Q", interpreter, HOLDER, ctypes.addressof(state))
        block, place = self.last
        struct.pack_into("<Q", block, place, at)
        self.last = interpreter, NEXT
        return at + OWN


@pytest.mark.parametrize("version", PLACES)
def test_held_gils_of_their_own_are_found(monkeypatch, version):
    """The main interpreter's GIL, a shared one, one that is free and one that is not made yet are none of them."""
    forged = Forged(monkeypatch, version)
    third = forged.add(3, tid=33)
    forged.add(2, shared=True, tid=22)
    first = forged.add(1, tid=11)
    forged.add(5, locked=0, tid=55)
    forged.add(4, locked=-1, tid=44)
    forged.add(0, tid=1)

    assert OwnGils(os.getpid()).held() == (HeldGil(third, 33), HeldGil(first, 11))


def test_a_release_candidate_tells(monkeypatch):
    """Its structs are those of the release."""
    gil = Forged(monkeypatch, (3, 15), level=0xC).add(1, tid=11)

    assert OwnGils(os.getpid()).held() == (HeldGil(gil, 11),)


def test_an_interpreter_that_ends_meanwhile_hides_only_those_behind_it(monkeypatch):
    """Its memory may be gone: what was read before counts."""
    forged = Forged(monkeypatch, (3, 14))
    first = forged.add(2, tid=22)
    struct.pack_into("<Q", *forged.last, 1 << 46)

    assert OwnGils(os.getpid()).held() == (HeldGil(first, 22),)


def test_a_list_without_an_end_is_left(monkeypatch):
    """A hostile process may link its interpreters in a ring."""
    forged = Forged(monkeypatch, (3, 14))
    gil = forged.add(1, tid=11)
    struct.pack_into("<Q", *forged.last, gil - OWN)

    assert set(OwnGils(os.getpid()).held()) == {HeldGil(gil, 11)}


@pytest.mark.parametrize(
    ("version", "changed"),
    [
        ((3, 12), {}),
        ((3, 99), {}),
        ((3, 15), {"level": 0xA}),
        ((3, 15), {"level": 0xB}),
        ((3, 14), {"cookie": b"\1" + bytes(7)}),
        ((3, 14), {"at_16": 1 << 21}),
    ],
)
def test_a_process_that_does_not_tell_has_none(monkeypatch, version, changed):
    """Neither does one before 3.13, of an unknown version, a pre-release, without the mark, or with an offset that cannot be."""
    forged = Forged(monkeypatch, version, **changed)
    forged.add(1, tid=11)

    assert OwnGils(os.getpid()).held() == ()


def test_a_process_that_is_gone_has_none():
    """The process may end at any time."""
    assert OwnGils(1 << 30).held() == ()
