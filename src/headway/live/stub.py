"""The machine code that runs Python statements in a process and never fails: for a pending call, before CPython 3.14.

A pending call that returns -1 ends the program's current statement with the exception that is set, or with a
SystemError if none is set. `PyRun_SimpleString` returns -1 if the statements do not even begin: an audit hook or a
trace function raises, the main thread is at its recursion limit, or there is no memory. The machine code therefore runs
the statements in their own dictionary, discards any exception, and returns 0. If CPython has the functions for that
(3.11 and later), the program's trace and profile functions are not called meanwhile.

x86-64, System V calling convention.
"""

import struct
from collections.abc import Mapping

__all__ = ["NEEDED", "WHERE_THERE_ARE", "machine_code"]

NEEDED = ("PyDict_New", "PyRun_StringFlags", "Py_DecRef", "PyErr_Clear")
"""The functions of CPython that the machine code calls."""
WHERE_THERE_ARE = ("PyThreadState_Get", "PyThreadState_EnterTracing", "PyThreadState_LeaveTracing")

_FILE_INPUT = 257  # Py_file_input (Include/compile.h)


def machine_code(functions: Mapping[str, int], text: int) -> bytes:
    """Return the code of a function `int (void *)` that runs the statements at an address, and returns 0.

    Args:
        functions: The addresses of NEEDED and, all or none, of WHERE_THERE_ARE.
        text: The address of the statements, which end with a NUL.
    """
    is_quiet = all(name in functions for name in WHERE_THERE_ARE)

    def call(name: str) -> bytes:
        return b"\x48\xb8" + struct.pack("<Q", functions[name]) + b"\xff\xd0"  # mov rax, ADDRESS; call rax

    def call_with(register: bytes, name: str) -> bytes:
        return register + call(name)

    rbx, r12, r13 = b"\x48\x89\xdf", b"\x4c\x89\xe7", b"\x4c\x89\xef"  # mov rdi, REGISTER
    run = b"".join(
        (
            b"\x48\xbf" + struct.pack("<Q", text),  # mov rdi, TEXT
            b"\xbe" + struct.pack("<I", _FILE_INPUT),  # mov esi, 257
            b"\x48\x89\xda\x48\x89\xd9",  # mov rdx, rbx; mov rcx, rbx: globals and locals
            b"\x45\x31\xc0",  # xor r8d, r8d: no flags
            call("PyRun_StringFlags"),
            b"\x49\x89\xc4",  # mov r12, rax
            call_with(r12, "Py_DecRef"),  # NULL after an exception, which Py_DecRef ignores
            call_with(rbx, "Py_DecRef"),
        )
    )
    return b"".join(
        (
            b"\x53\x41\x54\x41\x55",  # push rbx; push r12; push r13: the stack is aligned now
            call("PyThreadState_Get") + b"\x49\x89\xc5" + call_with(r13, "PyThreadState_EnterTracing") if is_quiet else b"",
            call("PyDict_New"),
            b"\x48\x89\xc3",  # mov rbx, rax
            b"\x48\x85\xdb\x0f\x84" + struct.pack("<i", len(run)),  # test rbx, rbx; jz behind `run`
            run,
            call("PyErr_Clear"),
            call_with(r13, "PyThreadState_LeaveTracing") if is_quiet else b"",
            b"\x41\x5d\x41\x5c\x5b\x31\xc0\xc3",  # pop r13; pop r12; pop rbx; xor eax, eax; ret
        )
    )  # fmt: skip
