"""The group "equal" of `policy_corpus.py`: threads that want the GIL for milliseconds; in the measured interpreter."""

import queue
import random
import time

from policy_corpus_crew_workload import program, work


def computing_for(cpu_s):
    """Compute until the thread has used so many seconds of CPU time, whatever the machine's speed."""
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        work(500)


@program("equal")
def p_compute_1(program):
    """One CPU-bound thread."""
    program.compute(1)


@program("equal")
def p_compute_2(program):
    """Two CPU-bound threads."""
    program.compute(2)


@program("equal")
def p_compute_4(program):
    """Four CPU-bound threads."""
    program.compute(4)


@program("equal")
def p_compute_8(program):
    """Eight CPU-bound threads."""
    program.compute(8)


@program("equal")
def p_bursts_of_3_ms(program):
    """Four threads compute for 3 ms and then wait for 1 ms."""

    def body(counter):
        while True:
            until = time.perf_counter() + 0.003
            while time.perf_counter() < until:
                work(50)
                counter[0] += 1
            time.sleep(0.001)

    program.add(body, times=4)


@program("equal")
def p_requests_of_8_ms(program):
    """Four threads share a queue of requests, each of which takes 8 ms."""
    items = queue.Queue()
    for _ in range(6):
        items.put(time.perf_counter())

    def body(counter):
        while True:
            asked = items.get()
            computing_for(0.008)
            program.times.append(time.perf_counter() - asked)
            items.put(time.perf_counter())
            counter[0] += 1

    program.add(body, times=4)


def requests_beside(program, threads):
    """Start a thread that pauses for 10 ms on average and then computes for some 12 ms, beside CPU-bound ones."""
    draw = random.Random(7)

    def body(counter):
        while True:
            pause_s = draw.expovariate(100)
            asked = time.perf_counter() + pause_s  # the request is there before its thread has the GIL again
            time.sleep(pause_s)
            computing_for(draw.uniform(0.0096, 0.0144))
            program.times.append(time.perf_counter() - asked)
            counter[0] += 1

    program.add(body)
    program.compute(threads)


@program("equal")
def p_requests_of_12_ms_beside_1(program):
    """Requests that compute for longer than a switch interval, beside a CPU-bound thread."""
    requests_beside(program, 1)


@program("equal")
def p_requests_of_12_ms_beside_4(program):
    """Requests that compute for longer than a switch interval, beside four CPU-bound threads."""
    requests_beside(program, 4)
