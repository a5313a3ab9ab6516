"""The group "calls" of `policy_corpus.py`: short system calls, each of which releases the GIL; in the measured interpreter."""

import os
import threading
import time

from policy_corpus_crew_workload import calling, program

NOWHERE = os.open(os.devnull, os.O_RDWR)
ZEROES = os.open("/dev/zero", os.O_RDONLY)


@program("calls")
def p_writes(program):
    """One thread makes tiny writes."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 1)


@program("calls")
def p_writes_4(program):
    """Four threads make tiny writes."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 4)


@program("calls")
def p_stat_2(program):
    """Two threads look at a file: after each call the GIL is wanted again within a microsecond."""
    calling(program, lambda: os.stat("/"), 2)


@program("calls")
def p_stat_8(program):
    """Eight threads look at a file."""
    calling(program, lambda: os.stat("/"), 8)


@program("calls")
def p_stat_32(program):
    """Thirty-two threads look at a file."""
    calling(program, lambda: os.stat("/"), 32)


@program("calls")
def p_yields_16(program):
    """Sixteen threads yield the GIL after each step, without waiting for anything else."""
    calling(program, lambda: time.sleep(0), 16)


@program("calls")
def p_reads_beside_1(program):
    """One thread makes short reads beside a CPU-bound thread."""
    calling(program, lambda: os.read(ZEROES, 64), 1)
    program.compute()


@program("calls")
def p_writes_beside_4(program):
    """One thread makes tiny writes beside four CPU-bound threads."""
    calling(program, lambda: os.write(NOWHERE, b"x"), 1)
    program.compute(4)


@program("calls")
def p_pipes_16_beside_1(program):
    """Sixteen threads write to pipes of their own and read from them, beside a CPU-bound thread."""
    ends = threading.local()

    def trip():
        if not hasattr(ends, "pipe"):
            ends.pipe = os.pipe()
        os.write(ends.pipe[1], b"x")
        os.read(ends.pipe[0], 1)

    calling(program, trip, 16)
    program.compute()
